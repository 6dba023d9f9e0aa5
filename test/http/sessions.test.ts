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

const create = (body: object = {}, headers = {}, credential = key) =>
  app.call('POST', '/v1/sessions', credential, body, headers)

describe('creating', () => {
  test('[SES1] [SES4] a session is there at once, and only for its organisation', async () => {
    const { status, json, headers } = await create({ title: 'one' })
    expect([status, json.title, json.project]).toEqual([201, 'one', 'default'])
    const path = headers.get('location') as string
    expect((await app.call('GET', path, key)).json.id).toBe(json.id)
    expect((await app.call('GET', path, stranger)).status).toBe(404)
  })

  test('one Idempotency-Key makes one session, also twenty times at once', async () => {
    const headers = { 'idempotency-key': 'k-1' }
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => create({ title: 't', project: 'p' }, headers)),
    )
    expect(new Set(answers.map(({ json }) => json.id)).size).toBe(1)
    expect((await create({ project: 'p', title: 't' }, headers)).json.id).toBe(answers[0]?.json.id)
    const other = await create({ title: 'other' }, headers)
    expect([other.status, other.json.error.code]).toEqual([409, 'key_conflict'])
    const elsewhere = await create({ title: 'other' }, headers, stranger)
    expect(elsewhere.status).toBe(201)
  })

  test('an Idempotency-Key that is no name is refused', async () => {
    const { status, json } = await create({}, { 'idempotency-key': 'x'.repeat(201) })
    expect([status, json.error.details[0].path]).toEqual([400, 'idempotency-key'])
  })
})

describe('listing', () => {
  test('pages newest first, each session once, also with equal times', async () => {
    const organisationId = await app.makeOrganisation()
    const reader = (await app.makeKey(organisationId, 'read')).secret
    const ids = await Promise.all(Array.from({ length: 7 }, () => app.deps.ids.mint()))
    await libsql.db().batch(
      ids.map((id, i) => ({
        sql: `insert into sessions (id, organisation_id, project, title, status, provider, sandbox_state,
              generation, created_at, outbox_seq) values (?, ?, ?, 't', ?, 'none', 'none', 1, ?, 1)`,
        values: [
          id,
          organisationId,
          i < 3 ? 'a' : 'b',
          i % 2 ? 'open' : 'closed',
          1000 + Math.floor(i / 3),
        ],
      })),
    )
    const list = async (query: string) => {
      const seen: { id: string; createdAt: number }[] = []
      let cursor: string | null = ''
      while (cursor !== null) {
        const page = await app.call(
          'GET',
          `/v1/sessions?${query}${cursor && `&cursor=${cursor}`}`,
          reader,
        )
        expect(page.status).toBe(200)
        seen.push(...page.json.items)
        cursor = page.json.nextCursor
      }
      return seen
    }
    for (const limit of [1, 2, 3, 7, 50]) {
      const rows = await list(`limit=${limit}`)
      expect(rows.map(({ id }) => id).sort()).toEqual([...ids].sort())
      expect(rows.map(({ createdAt }) => createdAt)).toEqual([
        1002, 1001, 1001, 1001, 1000, 1000, 1000,
      ])
    }
    expect(await list('project=a&limit=2')).toHaveLength(3)
    expect(await list('status=open')).toHaveLength(3)
    expect((await app.call('GET', '/v1/sessions', stranger)).text).not.toContain(ids[0])
  })
})

describe('one session', () => {
  test('closes and is erased, with or without a reason in the body', async () => {
    const { json } = await create()
    const close = await app.call('POST', `/v1/sessions/${json.id}/close`, key)
    expect([close.status, close.json.status]).toEqual([200, 'closed'])
    const again = await app.call('POST', `/v1/sessions/${json.id}/close`, key, { reason: 'r' })
    expect(again.status).toBe(200)
    expect((await app.call('DELETE', `/v1/sessions/${json.id}`, stranger)).status).toBe(404)
    expect((await app.call('DELETE', `/v1/sessions/${json.id}`, key)).status).toBe(204)
    expect((await app.call('GET', `/v1/sessions/${json.id}`, key)).status).toBe(404)
  })

  test('lists what it has, in the same shape everywhere', async () => {
    const { json } = await create()
    for (const list of ['turns', 'calls', 'approvals', 'artifacts']) {
      const answer = await app.call('GET', `/v1/sessions/${json.id}/${list}`, key)
      expect([list, answer.status, answer.json]).toEqual([
        list,
        200,
        { items: [], nextCursor: null },
      ])
    }
    expect((await app.call('GET', `/v1/sessions/${json.id}/diff`, key)).json.patch).toBe('')
  })

  test('calls are paged', async () => {
    const { json } = await create()
    const { token } = await app.deps.tokens.mint({
      sessionId: json.id,
      organisationId: json.organisationId,
      generation: 1,
    })
    for (const id of ['1', '2', '3']) {
      await app.call('POST', `/proliferate/${json.id}/tools/echo`, token, { tool_call_id: id })
    }
    const first = await app.call('GET', `/v1/sessions/${json.id}/calls?limit=2`, key)
    const rest = await app.call(
      'GET',
      `/v1/sessions/${json.id}/calls?limit=2&cursor=${first.json.nextCursor}`,
      key,
    )
    const ids = [...first.json.items, ...rest.json.items].map((call) => call.toolCallId)
    expect([ids, rest.json.nextCursor]).toEqual([['1', '2', '3'], null])
  })
})

test('every answer carries its request id and is not kept by caches', async () => {
  const answers = await Promise.all([
    app.call('GET', '/healthz'),
    app.call('GET', '/openapi.json'),
    app.call('GET', '/v1/sessions'),
    app.call('GET', '/v1/sessions', key),
  ])
  for (const { headers } of answers) {
    expect(headers.get('x-request-id')).toMatch(/^req_[0-9a-z]{20}$/)
    expect(headers.get('x-content-type-options')).toBe('nosniff')
    expect(headers.get('cache-control')).toBe('no-store')
  }
})

describe('[SES17] what cannot work is refused at once, with what to do', () => {
  test('an image where the provider has none', async () => {
    for (const sandbox of ['none', 'local'] as const) {
      const { status, json } = await create({ sandbox, image: 'node:24' })
      expect([status, json.error.code, json.error.details[0]]).toEqual([
        400,
        'invalid_request',
        { path: 'image', message: 'Only e2b and modal take one: leave it out here' },
      ])
    }
  })

  test("git's own way of writing an address by ssh", async () => {
    const url = 'git@github.com:acme/shop.git'
    const { status, json } = await create({ repository: { url } })
    expect([status, json.error.details[0].path]).toEqual([400, 'repository.url'])
    expect(json.error.details[0].message).toContain('https://github.com/acme/shop.git')
    const other = await create({ repository: { url: 'nonsense' } })
    expect(other.json.error.details[0].message).not.toContain('https://')
  })
})
