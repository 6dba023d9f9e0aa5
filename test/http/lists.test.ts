import { beforeAll, describe, expect, test } from 'vitest'
import { createTestApp, type TestApp } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'

const libsql = useLibsql()
let app: TestApp
let key: string
let stranger: string
beforeAll(async () => {
  app = createTestApp({ db: libsql.db })
  key = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
  stranger = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
})
const ok = async (...call: Parameters<TestApp['call']>) => {
  const answer = await app.call(...call)
  expect(answer.json?.error).toBeUndefined()
  return answer.json
}
const idsOf = ({ items }: { items: { id: string }[] }) => items.map(({ id }) => id)

describe('[RUN17] the list of runs', () => {
  const labels = { workflow: 'release', phase: 'build', agent: 'builder', subagent: 'linter' }
  let made: { id: string; sessionId: string; createdAt: number }[]
  beforeAll(async () => {
    made = []
    const bodies = [
      { intent: 'one', ...labels },
      { intent: 'two', project: 'web' },
      { intent: 'three', project: 'web', agent: 'tester' },
    ]
    for (const body of bodies) {
      made.push(await ok('POST', '/v1/runs', key, body))
      app.pass(1000)
    }
    await ok('POST', `/v1/runs/${made[1]?.id}/finish`, key, { status: 'failed', reason: 'no' })
    await ok('POST', '/v1/runs', stranger, { intent: 'theirs', agent: 'builder' })
    await app.settle()
  })
  const list = (query = '') => ok('GET', `/v1/runs${query}`, key)
  const id = (n: number) => made[n]?.id

  test('has the runs of all sessions, newest first, of the organisation only', async () => {
    expect(idsOf(await list())).toEqual([id(2), id(1), id(0)])
    const [theirs] = (await ok('GET', '/v1/runs', stranger)).items
    expect(theirs).toMatchObject({ intent: 'theirs' })
  })

  test('[R1-21] shows all that a run stores, as the run itself does', async () => {
    const [one] = (await list('?agent=builder')).items
    const { run } = await ok('GET', `/v1/runs/${id(0)}`, key)
    const { waitsFor, ...stored } = run
    expect([one, waitsFor]).toEqual([stored, []])
    expect(one).toMatchObject({
      ...{ id: id(0), intent: 'one', project: 'default', ...labels },
      ...{ adapter: 'opencode', model: 'scripted', status: 'created', outcome: null, reason: null },
      ...{ latestCheckpointId: null, completedAt: null, sessionId: made[0]?.sessionId },
    })
    const failed = (await list('?status=failed')).items[0]
    const finished = {
      status: 'failed',
      outcome: 'failed',
      reason: 'no',
      completedAt: failed.updatedAt,
    }
    expect(failed).toMatchObject(finished)
    const saved = await ok('POST', `/v1/runs/${id(2)}/checkpoints`, key, { label: 'l', state: 1 })
    await app.settle()
    expect((await list('?agent=tester')).items[0].latestCheckpointId).toBe(saved.id)
  })

  test('can be asked for by status, project, session, agent and time', async () => {
    const filters: [string, (string | undefined)[]][] = [
      ['?status=failed', [id(1)]],
      ['?project=web', [id(2), id(1)]],
      ['?project=web&status=created', [id(2)]],
      [`?session=${made[0]?.sessionId}`, [id(0)]],
      ['?agent=tester', [id(2)]],
      [`?since=${made[1]?.createdAt}`, [id(2), id(1)]],
      ['?agent=nobody', []],
    ]
    for (const [query, ids] of filters)
      expect([query, idsOf(await list(query))]).toEqual([query, ids])
  })

  test('comes in pages, each run once', async () => {
    const seen: string[] = []
    for (let cursor = ''; ;) {
      const page = await list(`?limit=1${cursor}`)
      seen.push(...idsOf(page))
      if (page.nextCursor === null) break
      cursor = `&cursor=${page.nextCursor}`
    }
    expect(seen).toEqual([id(2), id(1), id(0)])
  })

  test.each(['status=x', 'project=A', 'session=s', 'since=yesterday', 'agent=', 'cursor=x', 'x=1'])(
    'refuses %s with its field',
    async (query) => {
      const { status, json } = await app.call('GET', `/v1/runs?${query}`, key)
      expect([status, json.error.details[0].path]).toEqual([400, query.split('=')[0]])
    },
  )

  test('comes in pages, each run once, though all began in the same moment', async () => {
    const own = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
    const begun: string[] = []
    for (const intent of ['a', 'b', 'c'])
      begun.push((await ok('POST', '/v1/runs', own, { intent })).id)
    await app.settle()
    const seen: string[] = []
    let cursor: string | null = ''
    while (cursor !== null && seen.length < 9) {
      const query: string = cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`
      const page = await ok('GET', `/v1/runs?limit=1${query}`, own)
      seen.push(...idsOf(page))
      cursor = page.nextCursor
    }
    expect(seen).toEqual(begun.toSorted().toReversed())
  })

  test('[RUN7] a run names its attempts in both ways', async () => {
    const record = await ok('GET', `/v1/runs/${id(0)}`, key)
    expect(record.operationAttempts).toEqual(record.attempts)
    expect(record.attempts).toEqual([])
  })
})

describe('[MODE9] the list of models', () => {
  test('has what can be chosen, with limits, prices and the default', async () => {
    const list = await ok('GET', '/v1/models', key)
    expect([list.default, list.pricedAt]).toEqual(['scripted', expect.stringMatching(/^\d{4}-/)])
    const of = (name: string) => list.items.find((item: { id: string }) => item.id === name)
    expect(of('claude-sonnet-4.6')).toEqual({
      ...{ id: 'claude-sonnet-4.6', maker: 'anthropic', served: false },
      ...{ contextTokens: 200_000, outputTokens: 64_000 },
      reasoningEfforts: ['quick', 'normal', 'deep'],
      price: { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75 },
    })
    expect(of('scripted')).toMatchObject({ price: null, reasoningEfforts: [] })
  })

  test('every model of the list can be chosen, with the efforts that it names and no other', async () => {
    for (const { id, reasoningEfforts } of (await ok('GET', '/v1/models', key)).items) {
      const effort = reasoningEfforts[0]
      await ok('POST', '/v1/sessions', key, {
        model: id,
        ...(effort && { reasoningEffort: effort }),
      })
      if (effort) continue
      const body = { model: id, reasoningEffort: 'deep' }
      expect((await app.call('POST', '/v1/sessions', key, body)).status).toBe(422)
    }
  })

  test('says which vendors have a key, and what else is served', async () => {
    const vendor = { baseUrl: 'http://127.0.0.1:1', apiKey: 'k' }
    const served = createTestApp({ db: libsql.db, models: { anthropic: vendor, litellm: null } })
    const reader = (await served.makeKey(await served.makeOrganisation(), 'read')).secret
    const list = (await served.call('GET', '/v1/models', reader)).json
    expect(list.default).toBe('claude-sonnet-4.6')
    const makers = list.items.filter(({ served }: { served: boolean }) => served)
    expect(new Set(makers.map(({ maker }: { maker: string }) => maker))).toEqual(
      new Set(['anthropic']),
    )
  })
})

describe('[API9] a missing body', () => {
  const json = { 'content-type': 'application/json' }
  const send = (path: string, headers: Record<string, string>, method = 'POST') =>
    app.call(method, path, key, undefined, headers)

  test.each([{}, json])('is told as such, with the fields (%j)', async (headers) => {
    const { status, json } = await send('/v1/runs', headers)
    expect([status, json.error.code]).toEqual([400, 'invalid_request'])
    expect(json.error.message).toBe(
      'A body is required: send JSON with "content-type: application/json". It needs intent, and may have workflow, phase, agent, subagent, project',
    )
    expect(json.error.details).toEqual([{ path: 'intent', message: 'Required' }])
  })

  test.each([{}, json])('stands for {} where nothing is required (%j)', async (headers) => {
    const session = await send('/v1/sessions', headers)
    expect(session.status).toBe(201)
    const closed = await send(`/v1/sessions/${session.json.id}/close`, headers)
    expect([closed.status, closed.json.status]).toEqual([200, 'closed'])
  })

  test('may also come as a stream of nothing without a type, as workerd has it', async () => {
    const session = await send('/v1/sessions', {})
    const nothing = new ReadableStream({ start: (controller) => controller.close() })
    const answer = await app.app.request(`/v1/sessions/${session.json.id}/abort`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}` },
      body: nothing,
      ...{ duplex: 'half' },
    })
    expect(answer.status).toBe(200)
  })

  test('is told on every route that needs one', async () => {
    const { paths } = await ok('GET', '/openapi.json')
    const { id } = await ok('POST', '/v1/runs', key, { intent: 'x' })
    const run = await send(`/v1/runs/${id}/events`, json)
    expect(run.json.error.message).toContain('It needs kind, and may have data')
    const put = await send('/v1/budgets', json, 'PUT')
    expect(put.json.error.message).toContain('It needs limits, and may have project')
    expect(Object.keys(paths).length).toBeGreaterThan(20)
  })
})

describe('[TOOL10] env values', () => {
  const configuration = async (name: string) =>
    (await ok('POST', '/v1/configurations', key, { name })).id as string
  const configure = (configurationId: string) =>
    ok('PUT', '/v1/secrets/A_KEY', key, { value: 'configured-value', configurationId })
  const begin = async (configurationId?: string) =>
    (await ok('POST', '/v1/sessions', key, configurationId ? { configurationId } : {})).id as string
  const submit = (id: string, body: object) => ok('POST', `/v1/sessions/${id}/env`, key, body)
  const value = async (id: string, name: string) => {
    const token = (await ok('POST', `/v1/sessions/${id}/tokens`, key, {})).token
    return (await ok('GET', `/sandbox/${id}/env`, token)).values[name]
  }
  const result = (persisted: boolean, alreadyExisted: boolean) => [
    { key: 'A_KEY', persisted, alreadyExisted },
  ]
  const give = (text: string, more = {}) => ({ values: [{ key: 'A_KEY', value: text }], ...more })

  test('a key that exists stays as it is unless it is to be replaced', async () => {
    const id = await begin()
    expect((await submit(id, give('first-value'))).results).toEqual(result(false, false))
    expect((await submit(id, give('other-value'))).results).toEqual(result(false, true))
    expect(await value(id, 'A_KEY')).toBe('first-value')
    expect((await submit(id, give('other-value', { replace: true }))).results).toEqual(
      result(false, true),
    )
    expect(await value(id, 'A_KEY')).toBe('other-value')
  })

  test('neither does it change a secret of the configuration', async () => {
    const id = await configuration('kept')
    await configure(id)
    const session = await begin(id)
    const keep = { saveToConfiguration: true }
    expect((await submit(session, give('mine', keep))).results).toEqual(result(false, true))
    expect(await value(await begin(id), 'A_KEY')).toBe('configured-value')
    const replaced = await submit(session, give('mine-instead', { ...keep, replace: true }))
    expect(replaced.results).toEqual(result(true, true))
    expect([await value(session, 'A_KEY'), await value(await begin(id), 'A_KEY')]).toEqual([
      'mine-instead',
      'mine-instead',
    ])
  })

  test('one that only the session has is not kept for others unless it is to be replaced', async () => {
    const id = await configuration('own')
    const session = await begin(id)
    await submit(session, give('of-session'))
    const keep = give('for-others', { saveToConfiguration: true })
    expect((await submit(session, keep)).results).toEqual(result(false, true))
    expect(await value(await begin(id), 'A_KEY')).toBeUndefined()
  })

  test('one that the configuration got after the session began is given to the session alone', async () => {
    const id = await configuration('later')
    const session = await begin(id)
    await configure(id)
    const { results } = await submit(session, give('of-session', { saveToConfiguration: true }))
    expect(results).toEqual(result(false, true))
    expect([await value(session, 'A_KEY'), await value(await begin(id), 'A_KEY')]).toEqual([
      'of-session',
      'configured-value',
    ])
  })

  test('a repeat is the same answer to what was stored', async () => {
    const id = await configuration('repeat')
    const session = await begin(id)
    const body = give('value-one', { saveToConfiguration: true })
    expect((await submit(session, body)).results).toEqual(result(true, false))
    expect((await submit(session, body)).results).toEqual(result(false, true))
    expect(await value(await begin(id), 'A_KEY')).toBe('value-one')
  })
})
