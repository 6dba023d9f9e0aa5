import { beforeAll, describe, expect, test } from 'vitest'
import { createTestApp, type TestApp } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'
import { random as randomOf, seedsOf } from '../support/random.ts'

const libsql = useLibsql()
let app: TestApp
let key: string
let stranger: string
beforeAll(async () => {
  app = createTestApp({ db: libsql.db })
  key = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
  stranger = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
})

const put = async (body: object, credential = key) => {
  const { status, json } = await app.call('PUT', '/v1/agents', credential, body)
  expect([status, json.error]).toEqual([200, undefined])
  return json
}
const post = (body: object, credential = key) =>
  app.call('POST', '/v1/agents/resolve', credential, body)
const resolve = async (body: object, credential = key) => {
  const { status, json } = await post(body, credential)
  expect([status, json.error]).toEqual([200, undefined])
  return json
}
interface Told {
  agent: Record<'name' | 'project' | 'scope' | 'mode' | 'revision', unknown>
}
interface Ranked {
  agent: { name: string }
  score: number
}
const ranked = async (body: object, credential = key) =>
  (await resolve(body, credential)).candidates.map(
    ({ agent, score }: Ranked) => `${agent.name} ${score}`,
  )

/** The seed's own two examples. */
async function seed(project: string, credential = key): Promise<void> {
  const implement = { capabilities: ['implementation', 'typescript'], workflows: ['sdd:apply'] }
  await put({ project, name: 'apply-agent', ...implement, adapters: { opencode: {} } }, credential)
  await put(
    { project, name: 'planner', capabilities: ['planning'], workflows: ['sdd'] },
    credential,
  )
  const sub = { project, mode: 'subagent', parent: 'apply-agent', capabilities: ['review'] }
  await put({ ...sub, name: 'reviewer', workflows: ['verify'] }, credential)
}

describe('[AGT7] POST /v1/agents/resolve', () => {
  test('ranks who may have the task, with a reason for every point, and says who may not and why', async () => {
    await seed('agt7')
    const answer = await resolve({
      ...{ project: 'agt7', capabilities: ['implementation', 'typescript'], workflow: 'sdd' },
      ...{ phase: 'apply', adapter: 'opencode', task: 'Implement the next SDD apply slice' },
    })
    expect(answer.candidates).toEqual([
      {
        agent: expect.objectContaining({ name: 'apply-agent', mode: 'agent', revision: 1 }),
        score: 10 + 10 + 8 + 5 + 3 + 2,
        reasons: [
          { signal: 'capability', points: 10, message: 'It has "implementation"' },
          { signal: 'capability', points: 10, message: 'It has "typescript"' },
          { signal: 'workflow', points: 8, message: 'It is for "sdd:apply"' },
          { signal: 'adapter', points: 5, message: 'It is for opencode' },
          { signal: 'text', points: 5, message: 'The task says apply, sdd' },
        ],
      },
    ])
    const skipped = answer.skipped.map(({ agent, reasons }: never) => [
      (agent as Ranked['agent']).name,
      ...(reasons as { signal: string }[]).map(({ signal }) => signal),
    ])
    expect(skipped).toEqual([
      ['planner', 'capability'],
      ['reviewer', 'workflow', 'capability'],
    ])
  })

  test('words of a task are the same in whichever width they are written, and twenty of them are shown', async () => {
    const words = Array.from({ length: 30 }, (_, n) => `word${String(n).padStart(2, '0')}`)
    await put({ project: 'agt7w', name: 'wide', capabilities: words })
    const wide = 'word07'
      .split('')
      .map((one) => String.fromCodePoint(one.charCodeAt(0) + 0xfee0))
      .join('')
    const first = async (task: string) => (await resolve({ project: 'agt7w', task })).candidates[0]
    expect(await first(wide)).toMatchObject({
      score: 2,
      reasons: [{ message: 'The task says word07' }],
    })
    expect(await first(words.join(' '))).toMatchObject({
      score: 15,
      reasons: [{ message: `The task says ${words.slice(0, 20).join(', ')}` }],
    })
  })

  test('finds a subagent by mode and phase', async () => {
    await seed('agt7b')
    const asked = { project: 'agt7b', mode: 'subagent', capabilities: ['review'] }
    expect(await ranked({ ...asked, workflow: 'sdd', phase: 'verify' })).toEqual(['reviewer 17'])
  })

  test('is total: nothing asked for ranks everybody, and in an empty project nobody', async () => {
    await seed('agt7c')
    expect(await ranked({ project: 'agt7c' })).toEqual(['apply-agent 0', 'planner 0', 'reviewer 0'])
    expect((await resolve({ project: 'agt7-empty' })).candidates).toEqual([])
  })

  test('refuses what it does not understand', async () => {
    const { status, json } = await post({ capability: 'one' })
    expect([status, json.error.code, json.error.details[0].path]).toEqual([
      ...[400, 'invalid_request', 'capability'],
    ])
  })
})

describe('[AGT9] [AGT10] the whole of a registry', () => {
  test('ties: more points, then agents, then the name; one name in one place is one agent', async () => {
    const project = 'agt10'
    const sub = { project, mode: 'subagent', parent: 'zoe' }
    for (const name of ['zoe', 'bob']) await put({ project, name })
    for (const name of ['abe', 'carl']) await put({ ...sub, name })
    await put({ ...sub, name: 'yves', capabilities: ['code'] })
    expect(await ranked({ project, task: 'code' })).toEqual([
      ...['yves 2', 'bob 0', 'zoe 0', 'abe 0', 'carl 0'],
    ])
  })

  test('who does not fit is told with every reason', async () => {
    const project = 'agt9'
    const fits = { project, capabilities: ['code'] }
    await put({ ...fits, name: 'fits' })
    await put({ ...fits, name: 'own', scope: 'personal' })
    await put({ ...fits, name: 'sub', mode: 'subagent', parent: 'fits' })
    await put({ project, name: 'idle', capabilities: ['talk'], adapters: { claude: {} } })
    await put({ ...fits, name: 'verify', workflows: ['sdd:verify'] })
    const { candidates, skipped } = await resolve({
      ...{ ...fits, adapter: 'opencode', workflow: 'sdd', phase: 'apply', mode: 'agent' },
    })
    expect(candidates).toMatchObject([{ agent: { name: 'fits' }, score: 11 }])
    interface Skipped {
      agent: { name: string; project: string }
      reasons: { signal: string }[]
    }
    const here = (skipped as Skipped[]).filter(({ agent }) => agent.project === project)
    expect(
      here.map(({ agent, reasons }) => [agent.name, ...reasons.map(({ signal }) => signal)]),
    ).toEqual([
      ['idle', 'adapter', 'capability'],
      ['own', 'scope'],
      ['verify', 'workflow'],
      ['sub', 'mode'],
    ])
  })

  test.each<[form: string, asked: object, score: number | null]>([
    ['sdd:apply', { workflow: 'sdd', phase: 'apply' }, 8],
    ['apply', { workflow: 'sdd', phase: 'apply' }, 6],
    ['sdd', { workflow: 'sdd', phase: 'apply' }, 4],
    ['sdd:apply', { workflow: 'sdd:apply' }, 8],
    ['sdd:apply', { workflow: 'sdd', phase: 'apply-progress' }, 8],
    ['sdd:verify', { workflow: 'sdd', phase: 'apply' }, null],
  ])('[AGT8] an agent for %j, asked for %j: %s', async (form, asked, score) => {
    const project = `agt8-${form.replace(':', '-')}`
    await put({ project, name: 'one', workflows: [form] })
    await put({ project, name: 'any' })
    expect(await ranked({ project, ...asked })).toEqual(
      score === null ? ['any 0'] : [`one ${score}`, 'any 0'],
    )
  })

  test.each(seedsOf(6, 40))(
    '[AGT11] random registries, stored in any order, give one answer (seed %i)',
    async (seed) => {
      const random = randomOf(seed)
      const words = ['sdd', 'apply', 'code', 'review', 'plan', 'test']
      const some = <T>(list: readonly T[]): T[] => list.filter(() => random() < 0.4)
      const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T
      const agents = Array.from({ length: 12 }, (_, n) => ({
        ...{ name: `${pick(words)}-${n}`, scope: pick(['project', 'project', 'personal']) },
        ...{ capabilities: some(words), workflows: some([...words, 'sdd:apply']) },
        ...{ adapters: Object.fromEntries(some(['opencode', 'claude']).map((name) => [name, {}])) },
        description: some(words).join(' '),
      }))
      const asked = {
        ...{ capabilities: some(words), task: some(words).join(' '), workflow: pick(words) },
        ...(random() < 0.5 && { adapter: 'opencode' }),
      }
      const answers: unknown[] = []
      for (const [at, order] of [agents, agents.toReversed()].entries()) {
        const project = `agt11-${seed}-${at}`
        for (const agent of order) await put({ project, ...agent })
        const { candidates, skipped } = await resolve({ project, ...asked })
        const named = [...candidates, ...skipped].filter(
          ({ agent }: Told) => agent.project === project,
        ) as Told[]
        const names = new Set(named.map(({ agent }) => agent.name))
        expect([named.length, names]).toEqual([12, new Set(agents.map(({ name }) => name))])
        answers.push(
          named.map(({ agent: { name, scope, mode, revision }, ...rest }) => ({
            ...{ name, scope, mode, revision, ...rest },
          })),
        )
      }
      expect(answers[1]).toEqual(answers[0])
    },
  )
})

describe('[AGT11] whose agents are ranked', () => {
  test('rows of another organisation and of another member change nothing', async () => {
    await seed('agt11')
    const asked = { project: 'agt11', scope: 'personal', task: 'apply review planning' }
    const both = async () => [await resolve(asked), await resolve({ ...asked, scope: 'project' })]
    const before = await both()
    await seed('agt11', stranger)
    const { secret } = (
      await app.call('POST', '/v1/keys', key, { name: 'k', owner: 'colleague', scopes: ['write'] })
    ).json
    await put(
      { project: 'agt11', scope: 'personal', name: 'hers', capabilities: ['review'] },
      secret,
    )
    expect(await both()).toEqual(before)
    expect(await ranked({ project: 'agt11', scope: 'personal' }, secret)).toEqual(['hers 0'])
  })

  test('a personal agent is no candidate for the project, nor the other way round', async () => {
    await put({ project: 'agt11b', name: 'shared' })
    await put({ project: 'agt11b', name: 'own', scope: 'personal' })
    expect(await ranked({ project: 'agt11b' })).toEqual(['shared 0'])
    expect(await ranked({ project: 'agt11b', scope: 'personal' })).toEqual(['own 0'])
  })

  test('archived agents are not ranked, and those of other projects are skipped unless the key may not see them', async () => {
    const gone = await put({ project: 'agt11c', name: 'gone' })
    await app.call('POST', `/v1/agents/${gone.id}/archive`, key)
    await put({ project: 'agt11d', name: 'elsewhere-d' })
    const answer = await resolve({ project: 'agt11c' })
    expect(answer.candidates).toEqual([])
    expect(answer.skipped).toContainEqual({
      agent: expect.objectContaining({ name: 'elsewhere-d', project: 'agt11d' }),
      reasons: [{ signal: 'project', message: 'It is of project "agt11d"' }],
    })
    const limits = { projects: ['agt11c'] }
    const limited = await app.call('POST', '/v1/keys', key, { name: 'k', scopes: ['read'], limits })
    expect((await resolve({ project: 'agt11c' }, limited.json.secret)).skipped).toEqual([])
    expect((await post({ project: 'agt11d' }, limited.json.secret)).status).toBe(403)
    const both = { name: 'k', scopes: ['read'], limits: { projects: ['agt11c', 'agt11d'] } }
    const { secret } = (await app.call('POST', '/v1/keys', key, both)).json
    expect((await resolve({ project: 'agt11c' }, secret)).skipped).toMatchObject([
      { agent: { name: 'elsewhere-d' } },
    ])
  })

  test('[AGT7] it writes nothing, and says the same again', async () => {
    await seed('agt11e')
    const rows = async () =>
      await libsql
        .db()
        .all(
          'select * from agents a join agent_revisions r on r.agent_id = a.id order by a.id, r.revision',
        )
    const before = await rows()
    const asked = { project: 'agt11e', task: 'review typescript' }
    expect(await resolve(asked)).toEqual(await resolve(asked))
    expect(await rows()).toEqual(before)
  })
})
