import { beforeAll, describe, expect, test } from 'vitest'
import { createGuardKit, type GuardKit, type Send } from '../e2e/guard-kit.ts'
import { goodBody, refusalsAt } from '../e2e/guards.ts'
import { loadRoutes, type Route } from '../e2e/routes.ts'
import { storeArtifacts } from '../../src/core/session/artifacts/rows.ts'
import { patchChecksum } from '../../src/contract/patch.ts'
import { testOperatorKey } from '../support/app.ts'
import { ChangeScene, edit, sha256 } from '../support/changes-kit.ts'
import { type Host, useHost } from '../support/host.ts'

// Every route with a parameter x somebody else's real things. What is asked for is there: its owner is let in by the same request.

const host = useHost()
const routes = (await loadRoutes()).filter(({ guard }) => guard.kind === 'key')
const lists = routes.filter(({ method, path }) => method === 'GET' && !path.includes(':'))
const withParameters = routes.filter(({ path }) => path.includes(':'))

const project = 'shop'

interface World {
  kit: GuardKit
  key: string
  values: Record<string, string>
  token: string
  collectId: string
}
let [victim, stranger]: World[] = []

/** One thing of each kind, whose texts have the name in them. */
async function build(name: string, strangerKey: string): Promise<World> {
  const one = host()
  const send: Send = async (method, path, headers, body) => {
    const response = await one.app.app.request(path, { method, headers, body: body as string })
    const text = await response.text()
    return { status: response.status, headers: Object.fromEntries(response.headers), text }
  }
  const kit = await createGuardKit({
    ...{ send, strangerKey, adminKey: one.key, operatorKey: testOperatorKey },
    tokenKeys: one.app.tokenKeys,
    live: () => one.live(1000),
  })
  const ability = `{ name: ${name}, description: ${name}, steps: [{ id: a, run: "echo ${name}" }] }`
  const stored = await one.ok('PUT', '/v1/abilities', {
    ...{ project, files: [{ path: 'a.yaml', content: ability }] },
  })
  const steps = [edit(`${name}.txt`, `${name}\nworld\n`, 'world', 'moon')]
  const scene = await ChangeScene.begin(one, steps, { project })
  const { session } = scene
  await scene.tellTools()
  session.agent.emit('turn.ended', { turnId: scene.turn.id, ...ended(name) })
  await one.live()
  const collectId = scene.asked.id
  await scene.collect()
  const executed = await one.call('POST', `${session.at}/executions`, { ability: name })
  const executionId: string = executed.json.id
  const artifactId = await keepFile(one, session.id, session.token, name)
  await one.ok('PUT', `/v1/changes/${name}/phases/explore`, { content: name })
  await one.ok('PUT', `/v1/skills/${kit.skillId}/attachments/agent/${name}`, {})
  const source = `{ name: ${name}, rules: [{ match: { category: read }, decision: allow }] }`
  await one.ok('PUT', '/v1/policies', { source })
  const secret = { value: name, configurationId: kit.configurationId }
  await one.ok('PUT', '/v1/secrets/OWN_SECRET', secret)
  const checkpoint = { label: name, state: 1 }
  const { id: checkpointId } = await one.ok('POST', `/v1/runs/${kit.runId}/checkpoints`, checkpoint)
  const { hunks } = await one.ok(
    'GET',
    `/v1/runs/${scene.turn.runId}/changes/hunks?path=${name}.txt`,
  )
  await one.live(6000)
  await one.app.settle()
  return {
    ...{ kit, key: one.key, token: session.token, collectId },
    values: {
      ...{
        sessionId: session.id,
        idleId: kit.sessionId,
        turnId: scene.turn.id,
        runId: scene.turn.runId,
      },
      ...{ ofTurn: scene.turn.id, sha256: sha256(`${name}\nworld\n`), executionId, artifactId },
      ...{ approvalId: kit.approvalId, operationId: kit.operationId, attemptId: kit.attemptId },
      ...{ keyId: kit.keyId, memberId: kit.memberId, agentId: kit.agentId },
      ...{ profileId: kit.profileId, configurationId: kit.configurationId, revision: '1' },
      ...{ webhookId: kit.webhookId, skillId: kit.skillId, proposalId: kit.proposalId },
      ...{ memoryId: kit.memoryId, evalRunId: kit.evalRunId, promotionId: kit.promotionId },
      ...{ targetType: 'agent', targetKey: name, change: name, phase: 'explore' },
      ...{ openRunId: kit.runId, checkpointId, hunkId: hunks[0].id },
      ...{ version: '1', hash: stored.hash ?? stored.items?.[0]?.hash, name },
    },
  }
}

function ended(name: string) {
  const text = `diff --git a/${name} b/${name}\nnew file mode 100644\n--- /dev/null\n+++ b/${name}\n@@ -0,0 +1 @@\n+${name}\n`
  const [base, tree] = ['a'.repeat(40), 'b'.repeat(40)]
  return {
    ...{ state: 'completed', reason: null, text: name },
    diff: { patch: text, files: [], truncated: false, leftOut: [] },
    patch: { base, tree, files: 1, bytes: text.length, text, checksum: patchChecksum(text) },
  }
}

async function keepFile(one: Host, sessionId: string, token: string, name: string) {
  const answer = await one.app.app.request(`/sandbox/${sessionId}/artifacts`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${token}` },
    body: name,
  })
  const { sha256: hash } = (await answer.json()) as { sha256: string }
  const id = `art_${sha256(name).slice(0, 20)}`
  const file = { path: name, contentType: 'text/plain', size: name.length, sha256: hash }
  const sql = one.app.databaseOf(sessionId)
  sql.transaction(() => storeArtifacts(sql, 1, name, [{ id, ...file }]))
  return id
}

beforeAll(async () => {
  const one = host()
  const admin = async () =>
    (await one.app.makeKey(await one.app.makeOrganisation(), 'admin')).secret
  const [nothing, other] = [await admin(), await admin()]
  victim = await build('quokka', nothing)
  const own = one.key
  one.key = other
  stranger = await build('numbat', own)
  one.key = own
})

/** A parameter that is not known here is a red test: a new noun gets a thing of its own. */
function fill(path: string, { ...values }: Record<string, string>): string {
  // Its sandbox would be asked.
  if (/\/(diff|env)$/.test(path)) values['sessionId'] = values['idleId']!
  const filled = path.replaceAll(/:(\w+)/g, (_, parameter: string) => {
    const value = parameter === 'name' ? nameAt(path, values) : values[parameter]
    if (value === undefined) throw new Error(`${path}: nothing is there for "${parameter}"`)
    return encodeURIComponent(value)
  })
  return filled + queryAt(path, values)
}
function queryAt(path: string, values: Record<string, string>): string {
  if (path === '/v1/memories/search') return '?query=guarded'
  if (path.endsWith('/hunks')) return `?path=${values['name']}.txt`
  if (path.endsWith('/comparison')) return `?baseline=${values['evalRunId']}`
  if (path === '/v1/evals/baselines') return '?dataset=sums'
  return /^\/v1\/abilities(\/:name|$)/.test(path) ? `?project=${project}` : ''
}
const nameAt = (path: string, values: Record<string, string>): string | undefined => {
  if (/^\/v1\/(agents|profiles)\//.test(path)) return 'guard-agent'
  if (path.startsWith('/v1/secrets/')) return 'GUARD_SECRET'
  if (path.startsWith('/v1/policies/')) return 'strict'
  return path.startsWith('/v1/providers/') ? 'e2b' : values['name']
}

async function ask(route: Route, as: string, values: Record<string, string>) {
  const ids = { ...victim!.kit, runId: values['runId']!, sessionId: values['sessionId']! }
  const good = goodBody(ids, route.path).replace('"ability":"a"', `"ability":"${values['name']}"`)
  const body = route.method === 'GET' ? {} : { body: good }
  const headers = { authorization: `Bearer ${as}`, 'content-type': 'application/json' }
  const answer = await host().app.app.request(fill(route.path, values), {
    ...{ method: route.method, headers, ...body },
  })
  const text = await answer.text()
  const code = /"code":"(\w+)"/.exec(text)?.[1]
  return { status: answer.status, text, code: answer.status < 300 ? undefined : code }
}

/** Who is outside, and what of the victim's must not be shown to them: all, or what belongs to its sessions. */
const outsiders = {
  'an admin of another organisation': 'all',
  'a key of another project': 'all',
  'a key for own sessions': 'sessions',
} as const
type Outsider = keyof typeof outsiders
const everyOutsider = Object.keys(outsiders) as Outsider[]

/** Ids and texts of the victim that are in an answer, and were not in the question. */
function shown(text: string, asked: string, what: 'all' | 'sessions'): string[] {
  const { values, kit } = victim!
  const ofSessions = [values['sessionId']!.slice(4), kit.runId, kit.approvalId, kit.operationId]
  const ids = Object.values(values).filter((value) => /^[a-z]{3}_/.test(value))
  const all = [...ids, 'quokka', values['sha256']!]
  const secret = what === 'all' ? all : ofSessions
  return secret.filter((value) => text.includes(value) && !asked.includes(value))
}

/** Answers without a thing that the victim has here. */
const withoutThings = [
  ...['/v1/budgets', '/v1/usage', '/v1/limits', '/v1/limits/worst-case', '/v1/limits/actions'],
  ...['/v1/kill-switch', '/v1/secrets', '/v1/providers', '/v1/models', '/v1/agents/shipped'],
  ...['/v1/settings', '/v1/status', '/v1/dead-letters'],
]
/** Policies that come with Gantry are everybody's. */
const isShipped = ({ path }: Route) => path === '/v1/policies/:name'
/** Nobody has any here. */
const absent = ['DELETE /v1/providers/:name/credentials']

// In order: nothing that was refused has changed anything, and only then the owner does everything.
describe('somebody else’s things', { shuffle: false }, () => {
  const seen = new Map<string, string>()
  const look = async (route: Route) => {
    const { status, text } = await ask(route, victim!.key, victim!.values)
    return status < 300 ? text : `${status}`
  }
  const gets = withParameters.filter(
    ({ method, path }) => method === 'GET' && !path.endsWith('events'),
  )
  beforeAll(async () => {
    for (const route of gets) seen.set(route.path, await look(route))
  })

  test.each(withParameters.map((route) => [`${route.method} ${route.path}`, route] as const))(
    '[AUTH15] [MBR7] [MBR8] %s gives nothing of them, and changes nothing',
    async (_, route) => {
      const refusals = refusalsAt(route)
      for (const outsider of everyOutsider) {
        const code = isShipped(route) ? undefined : refusals[outsider]
        if (code === undefined && route.method !== 'GET') continue
        const answer = await ask(route, victim!.kit.visitors[outsider], victim!.values)
        if (code !== undefined) expect([outsider, answer.code]).toEqual([outsider, code])
        const asked = fill(route.path, victim!.values)
        expect([outsider, shown(answer.text, asked, outsiders[outsider])]).toEqual([outsider, []])
      }
    },
  )

  test.each(lists.map((route) => [route.path, route] as const))(
    '[AUTH15] [MBR7] GET %s lists none of them',
    async (_, route) => {
      for (const outsider of everyOutsider) {
        const { text } = await ask(route, victim!.kit.visitors[outsider], victim!.values)
        expect([outsider, shown(text, '', outsiders[outsider])]).toEqual([outsider, []])
      }
    },
  )

  test('[AUTH15] are in the lists of their owner', async () => {
    const empty: string[] = []
    for (const route of lists) {
      const { text } = await ask(route, victim!.key, victim!.values)
      if (shown(text, '', 'all').length === 0) empty.push(route.path)
    }
    expect(empty).toEqual(withoutThings)
  })

  test('[AUTH15] are as they were', async () => {
    for (const route of gets)
      expect([route.path, await look(route)]).toEqual([route.path, seen.get(route.path)])
  })

  test('[AUTH15] are there for their owner at every route, so that what was refused was refused by a guard', async () => {
    const last = ({ method, path }: Route) => {
      if (method === 'GET' || method === 'DELETE') return method === 'GET' ? 0 : 3
      return /\/(close|replace|archive|discard|cancel|finish)$/.test(path) ? 2 : 1
    }
    const missing: string[] = []
    for (const route of withParameters.toSorted((a, b) => last(a) - last(b))) {
      const { status, text } = await ask(route, victim!.key, victim!.values)
      if (absent.includes(`${route.method} ${route.path}`)) continue
      if (status === 404 || status === 400) missing.push(`${route.method} ${route.path} ${text}`)
    }
    expect(missing).toEqual([])
  })
})

/** Fields of queries and bodies whose values look like ids of ours. */
async function fieldsWithIds(): Promise<string[]> {
  const { json: api } = await host().app.call('GET', '/openapi.json')
  const found = new Set<string>()
  const isId = (schema: unknown) => /"\^[a-z]{3}_/.test(JSON.stringify(schema))
  const resolve = (schema: Schema | undefined): Schema =>
    schema?.$ref ? resolve(api.components.schemas[schema.$ref.split('/').at(-1)!]) : (schema ?? {})
  const walk = (title: string, given: Schema | undefined, depth = 0): void => {
    const schema = resolve(given)
    if (depth > 12) return
    for (const [name, field] of Object.entries(schema.properties ?? {})) {
      if (isId(resolve(field)) || isId(resolve(resolve(field).items))) found.add(`${title} ${name}`)
      walk(title, field, depth + 1)
    }
    for (const part of [schema.anyOf, schema.oneOf, schema.allOf, [schema.items]].flat())
      if (part) walk(title, part, depth + 1)
  }
  for (const [path, operations] of Object.entries<Record<string, Operation>>(api.paths))
    for (const [method, { parameters = [], requestBody }] of Object.entries(operations)) {
      for (const { in: place, name, schema } of parameters)
        if (place === 'query' && isId(resolve(schema))) found.add(`${method} ${path} ${name}`)
      walk(`${method} ${path}`, requestBody?.content['application/json']?.schema)
    }
  return [...found].toSorted()
}
interface Schema {
  $ref?: string
  properties?: Record<string, Schema>
  items?: Schema
  anyOf?: Schema[]
  oneOf?: Schema[]
  allOf?: Schema[]
}
interface Operation {
  parameters?: { in: string; name: string; schema: Schema }[]
  requestBody?: { content: Record<string, { schema: Schema }> }
}

type Values = Record<string, string>
/** Fields that take an id: a request with one's own ids in the path, and somebody else's in the field. */
const naming: Record<string, (own: Values, theirs: Values) => [path: string, body?: object]> = {
  'delete /v1/secrets/{name} configurationId': (_, { configurationId }) => [
    `/v1/secrets/OWN_SECRET?configurationId=${configurationId}`,
  ],
  'get /v1/evals/runs/{evalRunId}/comparison baseline': (own, theirs) => [
    `/v1/evals/runs/${own['evalRunId']}/comparison?baseline=${theirs['evalRunId']}`,
  ],
  'get /v1/evals/runs/{evalRunId}/report baseline': (own, theirs) => [
    `/v1/evals/runs/${own['evalRunId']}/report?baseline=${theirs['evalRunId']}`,
  ],
  'get /v1/runs session': (_, { sessionId }) => [`/v1/runs?session=${sessionId}`],
  'get /v1/secrets configurationId': (_, { configurationId }) => [
    `/v1/secrets?configurationId=${configurationId}`,
  ],
  'get /v1/skill-proposals skillId': (_, { skillId }) => [`/v1/skill-proposals?skillId=${skillId}`],
  'post /v1/abilities/{name}/plan sessionId': (own, { sessionId }) => [
    `/v1/abilities/${own['name']}/plan`,
    { sessionId },
  ],
  'post /v1/evals/from-run runId': (_, { runId }) => ['/v1/evals/from-run', { runId }],
  'post /v1/keys memberId': (_, { memberId }) => [
    '/v1/keys',
    { name: 'k', scopes: ['read'], memberId },
  ],
  'post /v1/policies/replay runIds': (_, { runId }) => [
    '/v1/policies/replay',
    { runIds: [runId], source: '{ name: n, rules: [] }' },
  ],
  'post /v1/runs/{runId}/changes/backfill turnId': (own, { turnId }) => [
    `/v1/runs/${own['runId']}/changes/backfill`,
    { turnId },
  ],
  'post /v1/runs/{runId}/changes/reject hunks': (own, { hunkId }) => [
    `/v1/runs/${own['runId']}/changes/reject`,
    { paths: [`${own['name']}.txt`], hunks: [hunkId] },
  ],
  'post /v1/runs/{runId}/resume checkpointId': (own, { checkpointId }) => [
    `/v1/runs/${own['openRunId']}/resume`,
    { checkpointId },
  ],
  'post /v1/runs/{runId}/skills skillId': (own, { skillId }) => [
    `/v1/runs/${own['runId']}/skills`,
    { skillId, outcome: 'helped' },
  ],
  'post /v1/sessions configurationId': (_, { configurationId }) => [
    '/v1/sessions',
    { configurationId },
  ],
  'post /v1/sessions/{sessionId}/prompts runId': (own, { runId }) => [
    `/v1/sessions/${own['sessionId']}/prompts`,
    { text: 'go', runId },
  ],
  'post /v1/skills/payload session': (_, { sessionId }) => [
    '/v1/skills/payload',
    { session: sessionId },
  ],
  'put /v1/evals/baselines evalRunId': (_, { evalRunId }) => ['/v1/evals/baselines', { evalRunId }],
  'put /v1/secrets/{name} configurationId': (_, { configurationId }) => [
    '/v1/secrets/OTHER',
    { value: 'v', configurationId },
  ],
}
/** A snapshot is somebody's own by `test/http/configurations.test.ts`; here nothing makes one. */
const elsewhere = ['patch /v1/configurations/{configurationId} baseSnapshotId']

/** Two ids in a path: the first one's own, the second somebody else's. */
const inside: typeof naming = {
  'get artifact': (own, theirs) => [
    `/v1/sessions/${own['sessionId']}/artifacts/${theirs['artifactId']}`,
  ],
  'get patch': (own, { ofTurn }) => [`/v1/sessions/${own['sessionId']}/patches/${ofTurn}`],
  'get text': (own, theirs) => [`/v1/runs/${own['runId']}/changes/texts/${theirs['sha256']}`],
  'get pinned': (own, { hash }) => [`/sandbox/${own['sessionId']}/abilities/${hash}`],
}

describe('ids in fields', { shuffle: false }, () => {
  test('[AUTH15] are all known here', async () => {
    expect([...Object.keys(naming), ...elsewhere].toSorted()).toEqual(await fieldsWithIds())
  })

  test.each(Object.entries({ ...naming, ...inside }))(
    '[AUTH15] %s finds what is one’s own, and nothing of another organisation',
    async (title, request) => {
      const send = async ({ values }: World) => {
        const [path, body] = request(stranger!.values, values)
        const as = path.startsWith('/sandbox/') ? stranger!.token : stranger!.key
        const headers = { authorization: `Bearer ${as}`, 'content-type': 'application/json' }
        const [method = ''] = title.split(' ')
        const sent = { method: method.toUpperCase(), headers, body: JSON.stringify(body) ?? null }
        const answer = await host().app.app.request(path, sent)
        return { status: answer.status, text: await answer.text(), asked: path + sent.body }
      }
      const { status, text, asked } = await send(victim!)
      const isNothing = status === 404 || /"(items|rows)":\[\]/.test(text)
      const isUnfit = status === 422 && /(skillId|hunks)$/.test(title)
      expect([title, status, isNothing || isUnfit]).toEqual([title, status, true])
      expect(shown(text, asked, 'all')).toEqual([])
      // The sandbox would be asked.
      if (!title.endsWith('hunks')) expect((await send(stranger!)).status).not.toBe(404)
    },
  )
})
