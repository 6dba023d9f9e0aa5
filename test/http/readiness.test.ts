import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { root } from '../../local/binaries.ts'
import { applyMigrations } from '../../local/database/migrations.ts'
import { createLibsql } from '../../src/adapters/libsql.ts'
import { createWebCrypto } from '../../src/adapters/web-crypto.ts'
import { schemaVersion, version } from '../../src/contract/version.ts'
import { createUnconfiguredApp, readConfig } from '../../src/http/app.ts'
import { createTestApp, type TestApp } from '../support/app.ts'
import { useEmptyLibsql } from '../support/libsql.ts'

const libsql = useEmptyLibsql()
const later = useEmptyLibsql()
let app: TestApp
beforeAll(() => {
  app = createTestApp({ db: libsql.db })
})

describe('a database without a schema', () => {
  test('[OPS1] it is alive and not ready, and says which command to run', async () => {
    expect(await app.call('GET', '/healthz')).toMatchObject({
      status: 200,
      json: { ok: true, version, missing: [] },
    })
    const { status, json } = await app.call('GET', '/readyz')
    expect(status).toBe(503)
    expect(json).toMatchObject({ ready: false, version })
    expect(json.checks.map(({ name, ok }: { name: string; ok: boolean }) => [name, ok])).toEqual([
      ['configuration', true],
      ['libSQL', true],
      ['schema', false],
    ])
    expect(json.checks[2].message).toContain(schemaVersion)
    expect(json.checks[2].hint).toContain('npm run admin -- migrate')
  })

  test('[OPS3] the API answers 503 and names the command', async () => {
    const { status, json } = await app.call('GET', '/v1/sessions', `gk_${'a'.repeat(32)}`)
    expect(status).toBe(503)
    expect(json.error).toMatchObject({ code: 'storage_unavailable' })
    expect(json.error.message).toContain('npm run admin -- migrate')
  })

  test('[OPS3] an older schema is late, too: a column that is not there yet is waited for', async () => {
    const db = libsql.db()
    await db.batch([{ sql: 'create table old (a text)', values: [] }])
    const late = { code: 'storage_unavailable' }
    await expect(db.all('select b from old')).rejects.toMatchObject(late)
    const insert = { sql: 'insert into old (b) values (1)', values: [] }
    await expect(db.batch([insert])).rejects.toMatchObject(late)
    await expect(db.all('nonsense')).rejects.not.toMatchObject(late)
  })

  test('[OPS1] after the migrations it is ready, once the last answer is five seconds old; an older schema will not do, and a later one will, unless it breaks this release', async () => {
    const migrated = createTestApp({ db: later.db })
    const ready = () => migrated.call('GET', '/readyz')
    expect((await ready()).status).toBe(503)
    await applyMigrations(later.server().url, later.server().token)
    expect((await ready()).status).toBe(503)
    migrated.pass(5000)
    const { status, json } = await ready()
    expect([status, json.ready]).toEqual([200, true])
    expect(json.checks[2].message).toContain(schemaVersion)
    const [newest] = await later.db().all(`select * from _migrations where name = ?`, schemaVersion)
    expect(newest).toBeDefined()
    await later.db().batch([
      {
        sql: 'update _migrations set name = ? where name = ?',
        values: ['0000_older.sql', schemaVersion],
      },
    ])
    migrated.pass(5000)
    expect((await ready()).json.checks[2]).toMatchObject({
      ok: false,
      message: expect.stringContaining(`this release needs ${schemaVersion}`),
      hint: expect.stringContaining('npm run admin -- migrate'),
    })
    await later.db().batch([
      {
        sql: 'update _migrations set name = ? where name = ?',
        values: [schemaVersion, '0000_older.sql'],
      },
    ])
    const row = `insert into _migrations (name, sha256, applied_at) values ('9999_later.sql', '', 0)`
    await later.db().batch([{ sql: row, values: [] }])
    migrated.pass(5000)
    expect((await ready()).json).toMatchObject({ ready: true })
    const breaking = row.replace('9999_later', '9999_later_breaking')
    await later.db().batch([{ sql: breaking, values: [] }])
    migrated.pass(5000)
    const unusable = (await ready()).json
    expect(unusable).toMatchObject({ ready: false })
    expect(unusable.checks[2].hint).toContain('Deploy that release')
  })
})

test('[OPS1] a token that is refused, may only read, or a server that is away: the variable is named, its value is not', async () => {
  const { url, readToken } = { url: libsql.server().url, readToken: libsql.readToken() }
  for (const [options, hint] of [
    [{ url, token: 'hunter2' }, 'LIBSQL_TOKEN'],
    [{ url, token: readToken }, 'LIBSQL_TOKEN'],
    [{ url: 'http://127.0.0.1:1', token: 'hunter2' }, 'LIBSQL_URL'],
  ] as const) {
    const { status, json, text } = await createTestApp({ db: () => createLibsql(options) }).call(
      'GET',
      '/readyz',
    )
    expect(status).toBe(503)
    expect(json.checks[1]).toMatchObject({ name: 'libSQL', ok: false })
    expect(json.checks[1].hint).toContain(hint)
    expect(text).not.toContain(options.token)
    expect(text).not.toContain('127.0.0.1')
  }
})

describe('without configuration', () => {
  const { problems } = readConfig({ LIBSQL_URL: 'hunter2', GANTRY_MODAL_URL: 'https://modal.test' })
  const bare = createUnconfiguredApp(
    { crypto: createWebCrypto([]), log: () => undefined },
    problems,
  )
  const names = [
    'LIBSQL_URL',
    'GANTRY_ID_SECRET',
    'GANTRY_TOKEN_KEYS',
    'GANTRY_SEAL_KEYS',
    'GANTRY_PUBLIC_URL',
    'GANTRY_MODAL_SECRET',
  ]

  test('[OPS2] it is alive and names every variable that is missing or wrong', async () => {
    const response = await bare.request('/healthz')
    const text = await response.text()
    expect(response.status).toBe(200)
    expect(response.headers.get('x-request-id')).toMatch(/^req_/)
    expect(JSON.parse(text).missing.map(({ name }: { name: string }) => name)).toEqual(names)
    expect(text).not.toContain('hunter2')
  })

  test('[OPS2] it is not ready', async () => {
    const response = await bare.request('/readyz')
    expect(response.status).toBe(503)
    const { ready, checks } = (await response.json()) as {
      ready: boolean
      checks: { message: string }[]
    }
    expect(ready).toBe(false)
    expect(checks.map(({ message }) => message.split(':')[0])).toEqual(names)
  })

  test('[OPS2] every other route is 503 not_configured, with the names', async () => {
    for (const [method, path] of [
      ['GET', '/v1/sessions'],
      ['POST', '/v1/sessions'],
      ['POST', '/proliferate/ses_1/tools/verify'],
      ['GET', '/nowhere'],
    ] as const) {
      const response = await bare.request(path, { method })
      expect(response.status).toBe(503)
      const { error } = (await response.json()) as {
        error: { code: string; details: { path: string }[] }
      }
      expect(error.code).toBe('not_configured')
      expect(error.details.map((detail) => detail.path)).toEqual(names)
    }
  })
})

test('[OPS1] the release asks for the newest migration: set schemaVersion in src/contract/version.ts to it', () => {
  const files = readdirSync(join(root, 'migrations')).filter((name) => name.endsWith('.sql'))
  expect(schemaVersion).toBe(files.sort().at(-1))
})
