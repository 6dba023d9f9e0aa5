import { beforeAll, expect, test, vi } from 'vitest'
import { createWebCrypto } from '../../src/adapters/web-crypto.ts'
import { maxWebhooks } from '../../src/contract/webhook.ts'
import { createTestApp, type TestApp } from '../support/app.ts'
import { secretKey } from '../support/keys.ts'
import { useLibsql } from '../support/libsql.ts'
import { hasSignature, type Received, useReceiver } from '../support/webhook-receiver.ts'

const libsql = useLibsql()
const receiver = useReceiver()
const path = '/v1/webhooks'
const events = ['run.ended']
let app: TestApp
let organisationId: string
let key: string
let stranger: string

beforeAll(async () => {
  app = createTestApp({ db: libsql.db, publicUrl: 'http://127.0.0.1:1' })
  organisationId = await app.makeOrganisation()
  key = (await app.makeKey(organisationId, 'admin')).secret
  stranger = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
})

const outcome = async (...call: Parameters<TestApp['call']>) => {
  const { status, json } = await app.call(...call)
  return [status, json?.error?.code]
}
const make = async (input: object = {}, credential = key) => {
  const body = { url: 'https://example.com/hook', events, ...input }
  const { status, json } = await app.call('POST', path, credential, body)
  expect(status).toBe(201)
  return json
}

test('[HOOK1] a webhook is made with a secret that is shown once and stored sealed', async () => {
  const { secret, ...made } = await make({ project: 'shop', events: ['run.ended', 'run.ended'] })
  expect(secret).toMatch(/^whsec_[0-9a-z]{32}$/)
  expect(made).toEqual({
    id: expect.stringMatching(/^whk_[0-9a-z]{20}$/),
    organisationId,
    project: 'shop',
    url: 'https://example.com/hook',
    events,
    createdAt: app.deps.now(),
  })
  const listed = await app.call('GET', path, key)
  expect(listed.json.items).toContainEqual(made)
  expect(listed.text).not.toContain(secret)
  const [row] = await libsql
    .db()
    .all<{ sealed_secret: string }>('select * from webhooks where id = ?', made.id)
  expect(JSON.stringify(row)).not.toContain(secret)
  expect(await app.deps.crypto.unseal(row?.sealed_secret ?? '')).toBe(secret)
})

test('[HOOK1] only an admin may make, list, test or delete one', async () => {
  const { id } = await make()
  const writer = (await app.makeKey(organisationId, 'write', 'approve')).secret
  const calls = [
    ['POST', path, { url: 'https://example.com/', events }],
    ['GET', path],
    ['POST', `${path}/${id}/test`],
    ['GET', `${path}/${id}/deliveries`],
    ['DELETE', `${path}/${id}`],
  ] as const
  for (const [method, at, body] of calls)
    expect(await outcome(method, at, writer, body)).toEqual([403, 'forbidden'])
})

test('[HOOK1] one of another organisation is not found, nor is it listed', async () => {
  const { id } = await make()
  const calls = [
    ['POST', `${path}/${id}/test`],
    ['GET', `${path}/${id}/deliveries`],
    ['DELETE', `${path}/${id}`],
  ] as const
  for (const [method, at] of calls)
    expect(await outcome(method, at, stranger)).toEqual([404, 'not_found'])
  expect((await app.call('GET', path, stranger)).json.items).toEqual([])
  expect(await outcome('DELETE', `${path}/${id}`, key)).toEqual([204, undefined])
  expect(await outcome('DELETE', `${path}/${id}`, key)).toEqual([404, 'not_found'])
})

test('[HOOK1] an organisation has at most 20, also if they are made at once', async () => {
  const owner = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
  const body = { url: 'https://example.com/', events }
  // On a busy machine libSQL may be away for a moment: then the same request again is right.
  const post = async (): Promise<unknown> => {
    const [status] = await outcome('POST', path, owner, body)
    return status === 503 ? post() : status
  }
  const statuses = await Promise.all(Array.from({ length: maxWebhooks + 5 }, post))
  expect(statuses.filter((status) => status === 409).length).toBeGreaterThanOrEqual(5)
  const first = await app.call('GET', `${path}?limit=15`, owner)
  const rest = await app.call('GET', `${path}?limit=15&cursor=${first.json.nextCursor}`, owner)
  expect([first.json.items.length, rest.json.items.length, rest.json.nextCursor]).toEqual([
    15,
    5,
    null,
  ])
})

test('[HOOK2] an address that may not be used is refused with the reason', async () => {
  const remote = createTestApp({ db: libsql.db, publicUrl: 'https://gantry.example.com' })
  const admin = (await remote.makeKey(await remote.makeOrganisation(), 'admin')).secret
  for (const url of ['https://10.0.0.1/', 'http://example.com/', 'https://a:b@example.com/']) {
    const answer = await app.call('POST', path, key, { url, events })
    expect([answer.status, answer.json.error.details[0].path]).toEqual([422, 'url'])
  }
  const local = { url: receiver.url('/'), events }
  const answer = await remote.call('POST', path, admin, local)
  expect([answer.status, answer.json.error.details[0].message]).toEqual([
    422,
    'Must not be on this machine',
  ])
  expect(await outcome('POST', path, key, local)).toEqual([201, undefined])
  for (const body of [
    { url: 'ftp://example.com/', events },
    { url: 'https://example.com/', events: [] },
    { url: 'https://example.com/', events: ['run.started'] },
    { url: 'https://example.com/', events, project: 'No Such' },
    { url: `https://example.com/${'x'.repeat(2000)}`, events },
  ])
    expect(await outcome('POST', path, key, body)).toEqual([400, 'invalid_request'])
})

test('[HOOK11] a test is posted now, signed, and its outcome is the answer', async () => {
  const { id, secret } = await make({ url: receiver.url('/test') })
  receiver.behave('/test', 204, 500, 'close', { redirectTo: receiver.url('/elsewhere') })
  const test = async () => (await app.call('POST', `${path}/${id}/test`, key)).json
  const first = await test()
  expect(first).toMatchObject({ delivered: true, status: 204, error: null })
  const [post] = receiver.received as [Received]
  expect(hasSignature(post, secret, app.deps.now())).toBe(true)
  expect(post.headers['x-gantry-delivery']).toBe(first.deliveryId)
  expect(post.json).toEqual({
    id: first.deliveryId,
    event: 'test',
    at: app.deps.now(),
    organisationId,
    sessionId: null,
    runId: null,
    data: { webhookId: id },
  })
  expect(await test()).toMatchObject({ delivered: false, status: 500, error: 'Answered 500' })
  expect(await test()).toMatchObject({ delivered: false, status: null, error: 'Cannot connect' })
  const redirected = { delivered: false, status: 302, error: 'Redirects are not followed' }
  expect(await test()).toMatchObject(redirected)
  expect(receiver.at('/elsewhere')).toEqual([])
  expect(JSON.stringify(app.logs)).not.toContain(secret)
})

test('[HOOK12] what was sent is listed newest first, without bodies', async () => {
  const { id } = await make()
  const [session] = [`ses_${'a'.repeat(30)}`]
  const delivery = (n: number) => `dlv_${'a'.repeat(30)}0000000${n}`
  await libsql.db().batch(
    [1, 2, 3].map((n) => ({
      sql: `insert into webhook_deliveries (webhook_id, id, organisation_id, session_id, event, state, attempts, last_status,
              created_at, updated_at, outbox_seq) values (?, ?, ?, ?, 'run.ended', 'delivered', ?, 204, 5, 6, ?)`,
      values: [id, delivery(n), organisationId, session ?? '', n, n],
    })),
  )
  const list = `${path}/${id}/deliveries?limit=2`
  const first = await app.call('GET', list, key)
  expect(first.json.items).toEqual(
    [3, 2].map((n) => ({
      id: delivery(n),
      sessionId: session,
      runId: null,
      event: 'run.ended',
      state: 'delivered',
      attempts: n,
      lastStatus: 204,
      error: null,
      createdAt: 5,
      updatedAt: 6,
    })),
  )
  const rest = await app.call('GET', `${list}&cursor=${first.json.nextCursor}`, key)
  expect([rest.json.items.map((item: { id: string }) => item.id), rest.json.nextCursor]).toEqual([
    [delivery(1)],
    null,
  ])
})

test('[SEC7] with a new first key the secrets of webhooks are resealed too', async () => {
  const [oldKey, newKey] = [secretKey('old'), secretKey('new')]
  const test = createTestApp({ db: libsql.db })
  const admin = (await test.makeKey(await test.makeOrganisation(), 'admin')).secret
  test.deps.crypto = createWebCrypto([oldKey])
  const body = { url: 'https://example.com/', events }
  const { id, secret } = (await test.call('POST', path, admin, body)).json
  test.deps.crypto = createWebCrypto([newKey, oldKey])
  const answer = await test.call('POST', '/v1/secrets/reseal', admin)
  expect(answer.json).toEqual({ resealed: 1, current: 0, unreadable: 0 })
  const [row] = await libsql
    .db()
    .all<{ sealed_secret: string }>('select sealed_secret from webhooks where id = ?', id)
  expect(await createWebCrypto([newKey]).unseal(row?.sealed_secret ?? '')).toBe(secret)
})

test('[APR11] approval.requested says what a person decides on, and where to answer', async () => {
  await make({ url: receiver.url('/approvals'), events: ['approval.requested'] })
  const call = async (method: string, at: string, body: object) =>
    (await app.call(method, at, key, body)).json
  const run = await call('POST', '/v1/runs', { intent: 'Clean up' })
  const operation = { category: 'shell', operation: 'run', command: 'rm -rf build' }
  const { approvalId } = await call('POST', `/v1/runs/${run.id}/operations`, { operation })
  await vi.waitFor(
    async () => {
      await app.sessions.get(run.sessionId)?.runDue()
      await app.settle()
      expect(receiver.at('/approvals')).toHaveLength(1)
    },
    { timeout: 120_000 },
  )
  const [post] = receiver.at('/approvals')
  expect(post?.json).toMatchObject({
    sessionId: run.sessionId,
    runId: run.id,
    data: {
      approvalId,
      title: 'shell: run: rm -rf build',
      sessionTitle: 'Clean up',
      project: 'default',
      intent: 'Clean up',
      rule: 'default:shell',
      policy: { name: 'operation-default', version: 1 },
      details: { command: 'rm -rf build', risks: ['destructive'] },
      secondsLeft: 600,
      answer: { url: `${app.deps.config.publicUrl}/v1/approvals/${approvalId}/resolve` },
    },
  })
})
