import { beforeEach, describe, expect, test } from 'vitest'
import { answers, type ModelSession, useModelWorld } from '../support/model-world.ts'

const world = useModelWorld()
const dayMs = 86_400_000
let anna: { secret: string; memberId: string }
let ben: { secret: string; memberId: string }

const makeKey = async (owner: string, more: object = {}) =>
  (
    await world.app.call('POST', '/v1/keys', world.key, {
      ...{ name: 'k', owner, scopes: ['write'], ...more },
    })
  ).json

/** A session of this key has asked a model so often, which has used 100 and 10 tokens each time. */
async function use(key: string, project: string, calls: number): Promise<ModelSession> {
  const { key: own } = world
  world.key = key
  const session = await world.open({ project, model: 'claude-sonnet-4.6' })
  world.key = own
  world.answer = answers.json({ type: 'message', usage: { input_tokens: 100, output_tokens: 10 } })
  for (let call = 0; call < calls; call += 1) await world.messages(session)
  await world.app.settle()
  return session
}

const usage = async (query = '', key = world.key) => {
  const { status, json } = await world.app.call('GET', `/v1/usage${query}`, key)
  expect([status, json.error]).toEqual([200, undefined])
  return json.items as Record<string, unknown>[]
}
const tokensBy = async (query: string, key = world.key) =>
  (await usage(query, key)).map(({ id, inputTokens }) => [id, inputTokens])
const callTool = ({ id, token }: ModelSession, toolCallId: string) =>
  world.app.call('POST', `/proliferate/${id}/tools/verify`, token, {
    ...{ tool_call_id: toolCallId, args: {} },
  })

/** As the organisation's outbox writes it. */
const bookSandbox = ({ id }: ModelSession, project: string, seconds: number) =>
  world.app.deps.db().batch([
    {
      sql: `insert into sandbox_reservations (organisation_id, session_id, generation, provider, project, granted_at,
              seconds, money, outbox_seq) values (?, ?, 1, 'local', ?, ?, ?, 0, 1)`,
      values: [world.organisationId, id, project, world.app.deps.now(), seconds],
    },
  ])

beforeEach(async () => {
  await world.newOrganisation()
  ;[anna, ben] = [await makeKey('Anna'), await makeKey('Ben')]
})

describe('[MBR12] usage', () => {
  test('is added up by member, project and model', async () => {
    const session = await use(anna.secret, 'web', 2)
    await use(ben.secret, 'web', 1)
    await use(ben.secret, 'api', 3)
    expect((await callTool(session, 'one')).status).toBe(200)
    await callTool(session, 'one')
    await bookSandbox(session, 'web', 7)
    await world.app.live(5000)
    const [first, second] = await usage('?by=member')
    const members = [anna, ben].toSorted((a, b) => (a.memberId < b.memberId ? -1 : 1))
    expect([first?.['id'], second?.['id']]).toEqual(members.map(({ memberId }) => memberId))
    const ofAnna = [first, second].find((row) => row?.['id'] === anna.memberId)
    expect(ofAnna).toMatchObject({
      ...{ name: 'Anna', requests: 2, inputTokens: 200, outputTokens: 20, toolCalls: 1 },
      moneyUsd: (200 * 3 + 20 * 15) / 1_000_000,
      sandboxSeconds: 7,
    })
    expect(await tokensBy('?by=project')).toEqual([
      ['api', 300],
      ['web', 300],
    ])
    const [model, ...others] = await usage('?by=model')
    expect(model).toMatchObject({
      ...{ id: 'claude-sonnet-4.6', name: null, inputTokens: 600 },
      ...{ toolCalls: null, sandboxSeconds: null },
    })
    expect(others).toEqual([])
  })

  test('is of whole days, up to today, of the last thirty unless asked', async () => {
    const now = world.app.deps.now()
    await use(anna.secret, 'old', 1)
    world.app.pass(40 * dayMs)
    await use(anna.secret, 'new', 1)
    expect(await tokensBy('?by=project')).toEqual([['new', 100]])
    expect(await tokensBy(`?by=project&since=${now}`)).toEqual([
      ['new', 100],
      ['old', 100],
    ])
    expect(await tokensBy(`?by=project&since=${now - dayMs}&until=${now}`)).toEqual([['old', 100]])
    expect(await tokensBy(`?by=project&until=${now - dayMs}`)).toEqual([])
  })

  test('comes in pages', async () => {
    for (const project of ['a', 'b', 'c']) await use(anna.secret, project, 1)
    const seen: unknown[] = []
    let cursor = ''
    do {
      const { json } = await world.app.call(
        'GET',
        `/v1/usage?by=project&limit=1${cursor}`,
        world.key,
      )
      seen.push(...json.items.map(({ id }: { id: string }) => id))
      cursor = json.nextCursor === null ? '' : `&cursor=${encodeURIComponent(json.nextCursor)}`
    } while (cursor !== '')
    expect(seen).toEqual(['a', 'b', 'c'])
    for (const query of ['?by=team', '?since=x', '?cursor=1'])
      expect((await world.app.call('GET', `/v1/usage${query}`, world.key)).status).toBe(400)
  })

  test('of a session that was deleted still counts', async () => {
    const session = await use(anna.secret, 'web', 1)
    await bookSandbox(session, 'web', 7)
    const used = { id: anna.memberId, requests: 1, inputTokens: 100, sandboxSeconds: 7 }
    expect(await usage()).toMatchObject([used])
    const { id } = session
    expect(await world.app.call('DELETE', `/v1/sessions/${id}`, world.key)).toMatchObject({
      status: 204,
    })
    await world.app.live(600_000)
    expect(await usage()).toMatchObject([used])
    expect(await world.app.deps.db().all('select 1 from sessions where id = ?', id)).toEqual([])
  })

  test('[MBR7] of others is in no sum of a limited key, and of other organisations in none', async () => {
    await bookSandbox(await use(anna.secret, 'web', 1), 'web', 1)
    await bookSandbox(await use(ben.secret, 'web', 1), 'web', 10)
    const api = await use(ben.secret, 'api', 1)
    await bookSandbox(api, 'api', 100)
    await callTool(api, 'one')
    await world.app.live(5000)
    const own = (await makeKey('Ben', { limits: { ownSessions: true } })).secret
    const web = (await makeKey('Ben', { limits: { projects: ['web'] } })).secret
    const both = (await makeKey('Ben', { limits: { projects: ['web'], ownSessions: true } })).secret
    expect(await tokensBy('?by=member', own)).toEqual([[ben.memberId, 200]])
    expect(await tokensBy('?by=project', web)).toEqual([['web', 200]])
    expect(await tokensBy('?by=model', both)).toEqual([['claude-sonnet-4.6', 100]])
    expect(await usage('?by=member', both)).toMatchObject([{ sandboxSeconds: 10, toolCalls: 0 }])
    expect(await usage('?by=member', own)).toMatchObject([{ sandboxSeconds: 110, toolCalls: 1 }])
    await world.newOrganisation()
    expect(await usage()).toEqual([])
  })
})
