import { beforeAll, expect, test } from 'vitest'
import { createTestApp, type TestApp } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'

const libsql = useLibsql()
let app: TestApp
let key: string

beforeAll(async () => {
  app = createTestApp({ db: libsql.db })
  key = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
})

const deep = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`

for (const [name, body, path, message] of [
  ['no JSON', '{', '', 'not JSON'],
  ['a wrong type', { title: 1 }, 'title', 'string'],
  [
    '[API13] an unknown field',
    { colour: 'red' },
    'colour',
    'Unknown field; known are project, title, ',
  ],
  [
    '[API13] an unknown field below',
    { gate: { allow: [] } },
    'gate.allow',
    'Unknown field; known are ',
  ],
  ['NUL in a text', { title: 'a\0' }, 'title', 'NUL'],
  ['a lone surrogate in a list', '{"gate":{"deny":["ok","\\udc00"]}}', 'gate.deny.1', 'surrogate'],
  ['a name with NUL', '{"a\\u0000":1}', 'a\u{fffd}', 'NUL'],
  ['a prototype', '{"__proto__":{"title":"x"}}', '__proto__', 'not allowed'],
  ['deep JSON', `{"title":${deep(100)}}`, `title${'.0'.repeat(63)}`, 'deeper than 64'],
  ['very deep JSON', `{"title":${deep(400_000)}}`, `title${'.0'.repeat(63)}`, 'deeper than 64'],
  ['an array', '[]', '', 'object'],
  ['null', 'null', '', 'object'],
  ['a program as repository', { repository: { url: 'ext::sh -c id' } }, 'repository.url', 'URL'],
  [
    'a password in the URL',
    { repository: { url: 'https://me:pw@host/x' } },
    'repository.url',
    'password',
  ],
] as const) {
  test(`${name} is refused with the path of the field`, async () => {
    const answer = await app.call('POST', '/v1/sessions', key, body)
    expect([answer.status, answer.json?.error.code]).toEqual([400, 'invalid_request'])
    expect(answer.json.error.details[0].path).toBe(path)
    expect(answer.json.error.details[0].message).toContain(message)
  })
}

const many = (length: number, item: string) => `[${Array.from({ length }, () => item).join()}]`
const fields = (length: number) => `{${Array.from({ length }, (_, n) => `"k${n}":0`).join()}}`

for (const [name, body, details, message] of [
  [
    'more fields than are read',
    `{"gate":${fields(10_001)}}`,
    1,
    'Invalid gate: An object must not',
  ],
  ['many unknown fields', fields(10_000), 1, 'Invalid k0: Unknown field'],
  ['some wrong items', `{"gate":{"deny":${many(50, '0')}}}`, 50, '(and 49 more)'],
] as const)
  test(`[API13] ${name}: as much is told as helps`, async () => {
    const { status, json } = await app.call('POST', '/v1/sessions', key, body)
    expect([status, json.error.details.length]).toEqual([400, details])
    expect(json.error.message).toContain(message)
  })

test('[API13] in a body of many values the first wrong one is told', async () => {
  const side = (hits: string) =>
    `{"runId":"a","target":"t","suiteDigest":"d","cases":[],"rows":[{"hits":${hits}}]}`
  const refused = async (items: number) => {
    const body = `{"baseline":${side(many(items, '{}'))},"candidate":${side('[]')}}`
    const { status, json } = await app.call('POST', '/v1/evals/compare', key, body)
    expect([status, json.error.code]).toEqual([400, 'invalid_request'])
    return json.error.details.length
  }
  expect(await refused(400)).toBe(100)
  expect(await refused(300_000)).toBeLessThan(20)
})

test('bytes that are not UTF-8 are refused', async () => {
  const response = await app.app.request('/v1/sessions', {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: new Uint8Array([0x22, 0xff, 0x22]),
  })
  expect(response.status).toBe(400)
})

test('a body without its content type is refused', async () => {
  const answer = await app.call('POST', '/v1/sessions', key, '{}', { 'content-type': 'text/plain' })
  expect([answer.status, answer.json.error.details[0].message]).toEqual([
    400,
    'The content-type must be application/json',
  ])
})

test('a body over the limit is refused, announced or not', async () => {
  const large = JSON.stringify({ title: 'x'.repeat(1024 * 1024) })
  const silent = await app.call('POST', '/v1/sessions', key, large)
  const announced = await app.call('POST', '/v1/sessions', key, '{}', {
    'content-length': String(2 ** 21),
  })
  expect([silent.status, announced.status]).toEqual([413, 413])
})

test('wrong query values are refused with their name', async () => {
  for (const [query, path] of [
    ['limit=0', 'limit'],
    ['limit=x', 'limit'],
    ['limit=1&limit=2', 'limit'],
    ['status=gone', 'status'],
    ['cursor=%00', 'cursor'],
    ['other=1', 'other'],
  ]) {
    const answer = await app.call('GET', `/v1/sessions?${query}`, key)
    expect([query, answer.status, answer.json.error?.details?.[0].path]).toEqual([query, 400, path])
  }
})

test('an id that nobody made is not found, whatever is in it', async () => {
  const foreign = `ses_${'0'.repeat(30)}`
  for (const id of [foreign, 'ses_', 'x', '%00', '%ed%a0%80', '..%2f..', '%', 'a'.repeat(3000)]) {
    const answer = await app.call('GET', `/v1/sessions/${id}`, key)
    expect([id, answer.status]).toEqual([id, 404])
  }
  for (const path of [`/v1/turns/trn_${'0'.repeat(38)}`, '/v1/turns/x', '/v1/keys/x']) {
    const answer = await app.call(path.includes('keys') ? 'DELETE' : 'GET', path, key)
    expect([path, answer.status]).toEqual([path, 404])
  }
})

test('unknown routes and methods have the same envelope', async () => {
  const missing = await app.call('GET', '/nope')
  expect([missing.status, missing.json.error.code]).toEqual([404, 'not_found'])
  const method = await app.call('PATCH', '/v1/sessions')
  expect([method.status, method.json.error.code]).toEqual([405, 'method_not_allowed'])
  expect(method.headers.get('allow')).toBe('POST, GET')
  expect(method.headers.get('x-request-id')).toMatch(/^req_/)
})

test('a bug is a 500 with a fixed text and the request id, and is logged', async () => {
  const broken = createTestApp({ db: libsql.db })
  const secret = (await broken.makeKey(await broken.makeOrganisation(), 'admin')).secret
  broken.deps.ids.mint = () => Promise.reject(new Error('the secret of the day'))
  const answer = await broken.call('POST', '/v1/sessions', secret, {})
  expect([answer.status, answer.json.error.code]).toEqual([500, 'internal'])
  expect(answer.text).not.toContain('secret of the day')
  const requestId = answer.headers.get('x-request-id')
  expect(answer.json.error.message).toContain(requestId)
  expect(broken.logs.at(-1)).toMatchObject({ level: 'error', fields: { requestId } })
})

test('an object that was restarted in the middle is worth another try', async () => {
  const broken = createTestApp({ db: libsql.db })
  const secret = (await broken.makeKey(await broken.makeOrganisation(), 'admin')).secret
  broken.deps.ids.mint = () =>
    Promise.reject(Object.assign(new Error('reset'), { durableObjectReset: true }))
  const answer = await broken.call('POST', '/v1/sessions', secret, {})
  expect([answer.status, answer.json.error.code]).toEqual([503, 'storage_unavailable'])
})
