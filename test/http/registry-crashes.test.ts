import { expect, test } from 'vitest'
import type { Db } from '../../src/core/ports.ts'
import { createTestApp } from '../support/app.ts'
import { memoryDb } from '../support/memory-db.ts'

type Answer = Awaited<ReturnType<ReturnType<typeof createTestApp>['call']>>
interface World {
  ok: (method: string, path: string, body?: unknown, as?: string) => Promise<Answer['json']>
  keys: Record<'anna' | 'bert', string>
}
interface Asked {
  path: string
  body?: unknown
  as?: 'anna' | 'bert'
}
interface Case {
  method: 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** What is there before; gives the request. */
  given: (world: World) => Asked | Promise<Asked>
}

const inline = (content: string) => ({ kind: 'inline', content })
async function skillIn({ ok }: World, versions = 1): Promise<string> {
  const { id } = await ok('PUT', '/v1/skills', { name: 'review', description: 'Reviews' })
  for (let n = 1; n <= versions; n += 1)
    await ok('POST', `/v1/skills/${id}/versions`, { source: inline(`V${n}`), activate: true })
  return id
}
async function proposalIn(world: World, submit = true) {
  const id = await skillIn(world)
  const body = { source: inline('Better'), rationale: 'r', submit }
  return await world.ok('POST', `/v1/skills/${id}/proposals`, body)
}
const approve = { resolution: 'approved', reason: 'r' }
const memory = { title: 'Ports', content: 'The proxy listens on 8080' }
const agentIn = async ({ ok }: World) => {
  const { id } = await ok('PUT', '/v1/agents', { name: 'lead' })
  await ok('PUT', '/v1/agents', { name: 'helper', mode: 'subagent', parent: 'lead' })
  return id
}
const phase = '/v1/changes/login/phases/explore'

/** Every route of the registries that changes something, by its operation id. */
const cases: Record<string, Case> = {
  putAgent: {
    method: 'PUT',
    given: async (world) => {
      await agentIn(world)
      return { path: '/v1/agents', body: { name: 'lead', description: 'changed' } }
    },
  },
  archiveAgent: {
    method: 'POST',
    given: async (world) => ({ path: `/v1/agents/${await agentIn(world)}/archive` }),
  },
  storeShippedAgents: {
    method: 'POST',
    given: () => ({ path: '/v1/agents/shipped', body: { project: 'shop' } }),
  },
  putProfile: {
    method: 'PUT',
    given: () => ({ path: '/v1/profiles', body: { name: 'lead', orchestrator: 'scripted' } }),
  },
  archiveProfile: {
    method: 'POST',
    given: async ({ ok }) => ({
      path: `/v1/profiles/${(await ok('PUT', '/v1/profiles', { name: 'lead' })).id}/archive`,
    }),
  },
  putSkill: {
    method: 'PUT',
    given: () => ({ path: '/v1/skills', body: { name: 'a', description: 'b' } }),
  },
  addSkillVersion: {
    method: 'POST',
    given: async (world) => ({
      path: `/v1/skills/${await skillIn(world)}/versions`,
      body: { source: inline('Next'), activate: true, reason: 'r' },
    }),
  },
  changeSkillVersion: {
    method: 'POST',
    given: async (world) => ({
      path: `/v1/skills/${await skillIn(world)}/versions/1/state`,
      body: { state: 'deprecated', reason: 'r' },
    }),
  },
  rollBackSkill: {
    method: 'POST',
    given: async (world) => ({
      path: `/v1/skills/${await skillIn(world, 2)}/rollback`,
      body: { version: 1, reason: 'r' },
    }),
  },
  attachSkill: {
    method: 'PUT',
    given: async (world) => ({
      path: `/v1/skills/${await skillIn(world)}/attachments/agent/lead`,
      body: { version: 1 },
    }),
  },
  detachSkill: {
    method: 'DELETE',
    given: async (world) => {
      const path = `/v1/skills/${await skillIn(world)}/attachments/agent/lead`
      await world.ok('PUT', path)
      return { path }
    },
  },
  proposeSkill: {
    method: 'POST',
    given: async (world) => ({
      path: `/v1/skills/${await skillIn(world)}/proposals`,
      body: { source: inline('Better'), rationale: 'r', submit: true },
    }),
  },
  submitSkillProposal: {
    method: 'POST',
    given: async (world) => ({
      path: `/v1/skill-proposals/${(await proposalIn(world, false)).id}/submit`,
    }),
  },
  resolveSkillProposal: {
    method: 'POST',
    given: async (world) => {
      const { id, hash } = await proposalIn(world)
      const path = `/v1/skill-proposals/${id}/resolve`
      return { path, body: { ...approve, hash }, as: 'bert' }
    },
  },
  cancelSkillProposal: {
    method: 'POST',
    given: async (world) => ({
      path: `/v1/skill-proposals/${(await proposalIn(world)).id}/cancel`,
      body: { reason: 'r' },
    }),
  },
  applySkillProposal: {
    method: 'POST',
    given: async (world) => {
      const { id, hash } = await proposalIn(world)
      const at = `/v1/skill-proposals/${id}`
      await world.ok('POST', `${at}/resolve`, { ...approve, hash }, world.keys.bert)
      return { path: `${at}/apply`, body: { reason: 'r' }, as: 'bert' }
    },
  },
  createMemory: { method: 'POST', given: () => ({ path: '/v1/memories', body: memory }) },
  updateMemory: {
    method: 'PATCH',
    given: async ({ ok }) => ({
      path: `/v1/memories/${(await ok('POST', '/v1/memories', memory)).id}`,
      body: { content: 'It listens on 9090' },
    }),
  },
  deleteMemory: {
    method: 'DELETE',
    given: async ({ ok }) => ({
      path: `/v1/memories/${(await ok('POST', '/v1/memories', memory)).id}`,
    }),
  },
  importMemories: {
    method: 'POST',
    given: async ({ ok }) => {
      await ok('POST', '/v1/memories', memory)
      const memories = [
        { ...memory, type: 'note', content: 'changed' },
        { title: 'New', content: 'n' },
      ]
      return { path: '/v1/memories/import', body: { memories } }
    },
  },
  savePhaseArtifact: {
    method: 'PUT',
    given: async ({ ok }) => {
      await ok('PUT', phase, { content: 'one' })
      return { path: phase, body: { content: 'two' } }
    },
  },
  approvePhaseArtifact: {
    method: 'POST',
    given: async ({ ok }) => {
      const { sha256 } = await ok('PUT', phase, { content: 'one' })
      return { path: `${phase}/approvals`, body: { sha256 }, as: 'bert' }
    },
  },
  importPhaseArtifacts: {
    method: 'POST',
    given: async ({ ok }) => {
      await ok('PUT', phase, { content: 'one' })
      const artifacts = [
        { change: 'login', phase: 'explore', content: 'two' },
        { change: 'logout', phase: 'explore', content: 'new' },
      ]
      return { path: '/v1/changes/import', body: { artifacts } }
    },
  },
}

/** Dies at a call of the database, before or after it is carried out; then nothing is carried out until it is revived. */
function mortalDb(db: Db) {
  let left = Number.POSITIVE_INFINITY
  let after = false
  let calls = 0
  const died = () => new Error('The process is dead')
  async function carried<T>(work: () => Promise<T>): Promise<T> {
    calls += 1
    left -= 1
    if (left < 0 || (left === 0 && !after)) throw died()
    const outcome = await work()
    if (left === 0) throw died()
    return outcome
  }
  const mortal: Db = {
    all: (...asked) => carried(() => db.all(...asked)),
    batch: (statements) => carried(() => db.batch(statements)),
  }
  return {
    db: () => mortal,
    calls: () => calls,
    dieAt(call: number, isAfter: boolean) {
      left = call
      after = isAfter
    },
    revive: () => (left = Number.POSITIVE_INFINITY),
  }
}

async function newWorld() {
  const store = memoryDb()
  const mortal = mortalDb(store)
  const app = createTestApp({ db: mortal.db })
  const admin = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
  const send = (method: string, asked: Asked, headers: object = {}) =>
    app.call(method, asked.path, asked.as ? keys[asked.as] : admin, asked.body, headers)
  const ok: World['ok'] = async (method, path, body, as = admin) => {
    const { status, json, text } = await app.call(method, path, as, body)
    expect([method, path, status < 300, text]).toEqual([method, path, true, text])
    return json
  }
  await ok('PUT', '/v1/settings', { newKeysCount: true })
  const newKey = async (owner: string) =>
    (await ok('POST', '/v1/keys', { name: owner, owner, scopes: ['write', 'approve'] })).secret
  const keys = { anna: await newKey('anna'), bert: await newKey('bert') }
  const world: World = { ok, keys }
  return { store, mortal, world, send }
}

const tables = /^(agents?|profiles?|skills?|memor(y|ies)|phases?)(_(?!index)\w+)?$/

/** All rows; ids and hashes by the order in which they are first seen. */
async function rowsOf(db: Db): Promise<string> {
  const names = await db.all<{ name: string }>(
    `select name from sqlite_master where type = 'table' order by name`,
  )
  const all: Record<string, unknown> = {}
  for (const { name } of names.filter((table) => tables.test(table.name)))
    all[name] = await db.all(`select * from ${name}`)
  const seen = new Map<string, string>()
  const named = (id: string) => seen.get(id) ?? seen.set(id, `#${seen.size}`).get(id) ?? ''
  return JSON.stringify(all, null, 1).replace(
    /\b[a-z]{3}_[0-9a-z]{16,}|\b[0-9a-f]{64}\b|\bp[0-9a-f]{32}0\b|\b179\d{10}\b/g,
    named,
  )
}

/** As it goes when nobody dies. */
async function undisturbed({ given, method }: Case) {
  const { store, mortal, world, send } = await newWorld()
  const asked = await given(world)
  const before = await rowsOf(store)
  const first = mortal.calls()
  const { status } = await send(method, asked, { 'idempotency-key': 'k' })
  const calls = mortal.calls() - first
  return { before, status, calls, after: await rowsOf(store) }
}

test.each(Object.entries(cases))(
  '[AGT22] %s: dead at any call of the database it is done or not at all, and done once by the same request again',
  async (_, one) => {
    const { before, after, status, calls } = await undisturbed(one)
    expect(status).toBeLessThan(300)
    expect(after).not.toBe(before)
    for (let call = 1; call <= calls; call += 1)
      for (const isAfter of [false, true]) {
        const { store, mortal, world, send } = await newWorld()
        const asked = await one.given(world)
        mortal.dieAt(call, isAfter)
        await send(one.method, asked, { 'idempotency-key': 'k' })
        mortal.revive()
        expect([before, after]).toContain(await rowsOf(store))
        const again = await send(one.method, asked, { 'idempotency-key': 'k' })
        expect([call, isAfter, await rowsOf(store)]).toEqual([call, isAfter, after])
        if (one.method !== 'DELETE') expect([call, again.status]).toEqual([call, status])
        await store.batch([
          { sql: `insert into memory_index (memory_index) values ('integrity-check')`, values: [] },
        ])
      }
  },
)

test('[AGT22] no changing route of a registry is left out', async () => {
  const app = createTestApp({ db: memoryDb })
  const { json } = await app.call('GET', '/openapi.json')
  const readOnly = ['resolveAgents', 'resolveSkills', 'getSkillPayload']
  /** By the session that the run is in. */
  const ofSessions = ['judgeSkill', 'activateAgent']
  const found = Object.values(json.paths as Record<string, Record<string, Operation>>)
    .flatMap((methods) => Object.entries(methods))
    .filter(([method, { tags = [] }]) => method !== 'get' && tags.some((tag) => nouns.has(tag)))
    .map(([, { operationId }]) => operationId)
  expect(found.toSorted()).toEqual([...Object.keys(cases), ...readOnly, ...ofSessions].toSorted())
})
interface Operation {
  operationId: string
  tags?: string[]
}
const nouns = new Set(['agents', 'profiles', 'skills', 'memories', 'phases'])
