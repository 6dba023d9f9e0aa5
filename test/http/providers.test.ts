import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createTestApp, type TestApp } from '../support/app.ts'
import { type E2bDouble, startE2bDouble } from '../support/e2b-double.ts'
import { useLibsql } from '../support/libsql.ts'

const libsql = useLibsql()
let e2b: E2bDouble
let app: TestApp
let organisationId: string
let admin: string
let reader: string
let stranger: string

beforeAll(async () => {
  e2b = await startE2bDouble()
})
beforeEach(async () => {
  app = createTestApp({ db: libsql.db, publicUrl: 'http://127.0.0.1:8787' })
  organisationId = await app.makeOrganisation()
  admin = (await app.makeKey(organisationId, 'admin')).secret
  reader = (await app.makeKey(organisationId, 'read')).secret
  stranger = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
})
afterAll(() => e2b?.close())

const own = () => ({ apiKey: e2b.apiKey, template: e2b.template, apiUrl: e2b.url })
const path = '/v1/providers/e2b/credentials'
const listed = async (key: string, name: string) => {
  const { json } = await app.call('GET', '/v1/providers', key)
  return json.items.find((item: { name: string }) => item.name === name)
}

describe('credentials', () => {
  test('[PROV15] an admin sets them, everybody sees whose count, nobody sees them', async () => {
    expect(await listed(reader, 'e2b')).toMatchObject({ source: null, updatedAt: null })
    const answer = await app.call('PUT', path, admin, own())
    expect([answer.status, answer.json]).toMatchObject([
      200,
      { name: 'e2b', source: 'organisation', isDefault: false, updatedAt: app.deps.now() },
    ])
    expect(await listed(reader, 'e2b')).toEqual(answer.json)
    expect(await listed(stranger, 'e2b')).toMatchObject({ source: null })
    for (const text of [answer.text, (await app.call('GET', '/v1/providers', admin)).text])
      expect(text).not.toContain(e2b.apiKey)
    const rows = await libsql
      .db()
      .all<{ sealed: string }>('select sealed from provider_credentials')
    expect(JSON.stringify(rows)).not.toContain(e2b.apiKey)
    expect(await app.deps.providers.find('e2b', organisationId)).not.toBeNull()
  })

  test('[PROV15] they are put under a new seal key with everything else', async () => {
    await app.call('PUT', path, admin, own())
    const before = await app.call('POST', '/v1/secrets/reseal', admin)
    expect(before.json).toMatchObject({ current: 1, unreadable: 0 })
  })

  test('[PROV15] deleting them brings the deployment’s back, and only once', async () => {
    await app.call('PUT', path, admin, own())
    expect((await app.call('DELETE', path, admin)).status).toBe(204)
    expect(await listed(reader, 'e2b')).toMatchObject({ source: null })
    expect(await app.deps.providers.find('e2b', organisationId)).toBeNull()
    expect((await app.call('DELETE', path, admin)).json.error.code).toBe('not_found')
    expect((await app.call('DELETE', '/v1/providers/local/credentials', admin)).status).toBe(404)
  })

  test('[PROV16] they are not changed under sandboxes that live, unless somebody insists', async () => {
    await app.call('PUT', path, admin, own())
    await libsql.db().batch([
      {
        sql: `insert into sandbox_reservations (organisation_id, session_id, generation, provider, project, granted_at,
                seconds, money, outbox_seq) values (?, 'ses_live', 1, 'e2b', 'default', 1, 60, 0, 1)`,
        values: [organisationId],
      },
    ])
    const answer = await app.call('PUT', path, admin, own())
    expect([answer.status, answer.json.error.code]).toEqual([409, 'wrong_state'])
    expect(answer.json.error.message).toContain('1 of its sandboxes live')
    expect((await app.call('DELETE', path, admin)).status).toBe(409)
    const modal = { url: e2b.url, secret: 'a secret of the app' }
    expect((await app.call('PUT', '/v1/providers/modal/credentials', admin, modal)).status).toBe(
      200,
    )
    expect((await app.call('PUT', `${path}?whileLive=true`, admin, own())).status).toBe(200)
    expect((await app.call('DELETE', `${path}?whileLive=true`, admin)).status).toBe(204)
    await libsql.db().batch([{ sql: `update sandbox_reservations set ended_at = 2`, values: [] }])
  })

  test('[PROV17] an address that only this network reaches is refused with its path', async () => {
    const open = createTestApp({ db: libsql.db, publicUrl: 'https://gantry.example.com' })
    const key = (await open.makeKey(organisationId, 'admin')).secret
    for (const [url, body, field] of [
      [path, { apiKey: 'e2b_12345678', apiUrl: 'http://127.0.0.1:1' }, 'apiUrl'],
      [path, { apiKey: 'e2b_12345678', sandboxUrl: 'https://169.254.169.254' }, 'sandboxUrl'],
      [
        '/v1/providers/modal/credentials',
        { url: 'https://app.internal', secret: '12345678' },
        'url',
      ],
    ] as const) {
      const answer = await open.call('PUT', url, key, body)
      expect([answer.status, answer.json.error.details[0].path]).toEqual([422, field])
    }
  })

  test('[PROV17] what is no credential is refused without being repeated', async () => {
    for (const body of [
      {},
      { apiKey: 'short' },
      { apiKey: 'e2b_long_enough', more: 'e2b_secret' },
    ]) {
      const answer = await app.call('PUT', path, admin, body)
      expect(answer.status).toBe(400)
      expect(answer.text).not.toContain('e2b_secret')
    }
  })
})

describe('the check', () => {
  test('[PROV18] it gives one result per check, with a hint where something is wrong', async () => {
    const none = await app.call('POST', '/v1/providers/e2b/check', admin)
    expect(none.json).toMatchObject({ provider: 'e2b', ok: false, source: null })
    expect(none.json.checks[0]).toMatchObject({ name: 'credentials', ok: false })
    expect(none.json.checks[0].hint).toContain('PUT /v1/providers/e2b/credentials')
    await app.call('PUT', path, admin, own())
    const set = await app.call('POST', '/v1/providers/e2b/check', admin)
    const byName = Object.fromEntries(
      set.json.checks.map((check: { name: string; ok: boolean }) => [check.name, check.ok]),
    )
    expect(byName).toEqual({
      credentials: true,
      'public URL': false,
      'api key': true,
      template: true,
    })
    for (const { ok, hint } of set.json.checks) expect(hint === null).toBe(ok)
    expect(set.text).not.toContain(e2b.apiKey)
    expect(e2b.sandboxes()).toEqual([])
    expect(e2b.refused).toEqual([])
  })

  test('[PROV18] a key that the vendor refuses is a failed check, not a failed request', async () => {
    await app.call('PUT', path, admin, { ...own(), apiKey: 'e2b_not_the_right_one' })
    const { status, json, text } = await app.call('POST', '/v1/providers/e2b/check', admin)
    expect([status, json.ok]).toEqual([200, false])
    expect(json.checks.at(-1)).toMatchObject({ name: 'api key', ok: false })
    expect(text).not.toContain('e2b_not_the_right_one')
  })

  test('[PROV19] a public URL that sandboxes elsewhere cannot call is refused', async () => {
    for (const [publicUrl, ok] of [
      ['http://localhost:8787', false],
      ['http://[::1]:8787', false],
      ['https://192.168.1.2', false],
      ['http://gantry.example.com', false],
      ['https://gantry.example.com', true],
    ] as const) {
      const other = createTestApp({ db: libsql.db, publicUrl })
      const { json } = await other.call('POST', '/v1/providers/modal/check', stranger)
      const found = json.checks.find(({ name }: { name: string }) => name === 'public URL')
      expect([publicUrl, found.ok]).toEqual([publicUrl, ok])
      expect(found.hint === null || found.hint.includes('GANTRY_PUBLIC_URL')).toBe(true)
    }
    const local = await app.call('POST', '/v1/providers/local/check', admin)
    expect(local.json.checks.map(({ name }: { name: string }) => name)).toEqual(['credentials'])
  })

  test('[PROV18] there is no check of what is no provider, and none without admin', async () => {
    for (const name of ['none', 'docker'])
      expect((await app.call('POST', `/v1/providers/${name}/check`, admin)).status).toBe(404)
    expect((await app.call('POST', '/v1/providers/e2b/check', reader)).status).toBe(403)
  })
})
