import { beforeAll, describe, expect, test } from 'vitest'
import type { Scope } from '../../src/contract/key.ts'
import type { Db } from '../../src/core/ports.ts'
import { createTestApp, type TestApp } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'
import { memoryDb } from '../support/memory-db.ts'

const libsql = useLibsql()
let queries = 0
let away = false
const watchedDb = (): Db => {
  const db = libsql.db()
  const check = () => {
    queries++
    if (away) throw Object.assign(new Error('away'), { code: 'storage_unavailable' })
  }
  return {
    all: async (...args) => (check(), db.all(...args)),
    batch: async (statements) => (check(), db.batch(statements)),
  }
}
let app: TestApp
let organisationId: string

beforeAll(async () => {
  app = createTestApp({ db: watchedDb })
  organisationId = await app.makeOrganisation()
})

const codeOf = async (path: string, credential?: string, method = 'GET') => {
  const { status, json } = await app.call(method, path, credential)
  return [status, json?.error?.code]
}

describe('API keys', () => {
  test('[AUTH2] nothing, nonsense and an unknown key are not let in', async () => {
    const unknown = `gk_${'0'.repeat(32)}`
    for (const credential of [undefined, '', 'x', 'gk_', unknown, `${unknown} x`, 'a.b.c']) {
      expect(await codeOf('/v1/sessions', credential)).toEqual([401, 'unauthenticated'])
    }
    const basic = await app.call('GET', '/v1/sessions', undefined, undefined, {
      authorization: 'Basic abc',
    })
    expect(basic.status).toBe(401)
  })

  test('[AUTH1] [AUTH2] a scope lets into its own routes and those of what it implies, no other', async () => {
    const probes: Record<Scope, [string, string]> = {
      read: ['GET', '/v1/sessions'],
      write: ['POST', '/v1/sessions'],
      approve: ['POST', '/v1/approvals/x/resolve'],
      admin: ['GET', '/v1/keys'],
    }
    const opens: Record<Scope, Scope[]> = {
      read: ['read'],
      write: ['read', 'write'],
      approve: ['read', 'approve'],
      admin: ['read', 'write', 'approve', 'admin'],
    }
    for (const held of ['read', 'write', 'approve', 'admin'] as const) {
      const { secret } = await app.makeKey(organisationId, held)
      for (const [needed, [method, path]] of Object.entries(probes)) {
        const [status, code] = await codeOf(path, secret, method)
        const isOpen = opens[held].includes(needed as Scope)
        expect([held, needed, code === 'forbidden']).toEqual([held, needed, !isOpen])
        if (!isOpen) expect(status).toBe(403)
      }
    }
  })

  test('a known key costs one query in thirty seconds, and then another one', async () => {
    const { secret } = await app.makeKey(organisationId, 'read')
    // What sessions of other tests still have to send.
    await app.settle()
    const count = async (requests: number) => {
      const before = queries
      for (let i = 0; i < requests; i++) await app.call('GET', '/v1/turns/x', secret)
      await app.settle()
      return queries - before
    }
    // The look-up and the note of its use.
    expect(await count(5)).toBe(2)
    app.pass(29_000)
    expect(await count(5)).toBe(0)
    app.pass(1500)
    expect(await count(5)).toBe(1)
    app.pass(30_000)
    expect(await count(5)).toBe(2)
  })

  test('guessing one wrong key again and again does not reach libSQL each time', async () => {
    const before = queries
    for (let i = 0; i < 5; i++) await app.call('GET', '/v1/status', `gk_${'1'.repeat(32)}`)
    expect(queries - before).toBe(1)
  })

  const madeUp = (n: number) => `gk_${String(n).padStart(32, '0')}`
  const from = (address: string) => ({ 'x-test-address': address })
  const ask = async (secret: string, address: string) => {
    const { status, json, headers } = await app.call(
      ...(['GET', '/v1/turns/x', secret, undefined, from(address)] as const),
    )
    return { status, code: json.error.code as string, retryAfter: headers.get('retry-after') }
  }

  test('[AUTH13] three thousand made-up keys of one address cost libSQL ten queries, one by one or at once', async () => {
    await app.settle()
    for (const [address, atOnce] of [
      ['10.0.0.1', 1],
      ['10.0.0.2', 100],
    ] as const) {
      const before = queries
      const statuses = new Map<number, number>()
      for (let n = 0; n < 3000; n += atOnce) {
        const keys = Array.from({ length: atOnce }, (_, i) => madeUp(10_000 * (atOnce + 1) + n + i))
        for (const { status, retryAfter } of await Promise.all(
          keys.map((key) => ask(key, address)),
        )) {
          statuses.set(status, (statuses.get(status) ?? 0) + 1)
          if (status === 429) expect(Number(retryAfter)).toBeGreaterThan(0)
        }
      }
      expect([...statuses]).toEqual([
        [401, 10],
        [429, 2990],
      ])
      expect(queries - before).toBe(10)
    }
  })

  test('[AUTH13] made-up keys of hundreds of addresses cost libSQL a thousand queries together', async () => {
    const store = memoryDb()
    let lookedUp = 0
    const flooded = createTestApp({
      db: () => ({ ...store, all: (...query) => (lookedUp++, store.all(...query)) }),
    })
    const { secret: known } = await flooded.makeKey(await flooded.makeOrganisation(), 'read')
    const askThere = async (secret: string, address: string) =>
      (await flooded.call('GET', '/v1/turns/x', secret, undefined, from(address))).status
    expect(await askThere(known, '10.1.0.1')).toBe(404)
    await flooded.settle()
    lookedUp = 0
    const statuses: number[] = []
    for (let network = 0; network < 150; network += 1) {
      const keys = Array.from({ length: 10 }, (_, n) => madeUp(700_000 + network * 10 + n))
      statuses.push(...(await Promise.all(keys.map((key) => askThere(key, `10.2.0.${network}`)))))
    }
    expect(lookedUp).toBe(1000)
    expect(statuses.filter((status) => status === 401)).toHaveLength(1000)
    expect(statuses.filter((status) => status === 429)).toHaveLength(500)
    expect(await askThere(known, '10.2.0.1')).toBe(404)
  })

  test('[AUTH13] a burst of requests with a key that nobody has seen yet looks it up once, and all pass', async () => {
    const { secret } = await app.makeKey(organisationId, 'read')
    await app.settle()
    const before = queries
    const burst = await Promise.all(Array.from({ length: 100 }, () => ask(secret, '10.0.0.9')))
    expect(new Set(burst.map(({ status }) => status))).toEqual(new Set([404]))
    // The look-up, and the note that it was used.
    expect(queries - before).toBe(2)
  })

  test('[AUTH13] beside a flood known keys go on, also long after they were seen last; other addresses notice nothing', async () => {
    const { secret: known } = await app.makeKey(organisationId, 'read')
    const { secret: fresh } = await app.makeKey(organisationId, 'read')
    expect((await ask(known, '10.0.0.3')).status).toBe(404)
    app.pass(3_600_000)
    for (let n = 0; n < 50; n += 1) await ask(madeUp(500_000 + n), '10.0.0.3')
    expect((await ask(known, '10.0.0.3')).status).toBe(404)
    // Nobody can tell it from a guess: it waits until guesses are let in again.
    expect(await ask(fresh, '10.0.0.3')).toMatchObject({ status: 429, code: 'rate_limited' })
    expect((await ask(fresh, '10.0.0.4')).status).toBe(404)
    expect((await ask(fresh, '10.0.0.3')).status).toBe(404)
    const { secret: another } = await app.makeKey(organisationId, 'read')
    expect((await ask(another, '10.0.0.3')).retryAfter).toBe('6')
    app.pass(6000)
    expect((await ask(another, '10.0.0.3')).status).toBe(404)
  })

  test('[AUTH13] keys that exist use nothing up: fifty new ones of one address, and one of fifty requests at once', async () => {
    const keys = await Promise.all(
      Array.from({ length: 50 }, () => app.makeKey(organisationId, 'read')),
    )
    for (const { secret } of keys) expect((await ask(secret, '10.0.0.5')).status).toBe(404)
    const { secret } = await app.makeKey(organisationId, 'read')
    await app.settle()
    const before = queries
    const answers = await Promise.all(Array.from({ length: 50 }, () => ask(secret, '10.0.0.5')))
    expect(answers.map(({ status }) => status)).toEqual(Array(50).fill(404))
    await app.settle()
    // The look-up and the note of its use.
    expect(queries - before).toBe(2)
  })

  test('[AUTH13] a key that is made after somebody has tried it works ten seconds later', async () => {
    const { secret, id } = await app.makeKey(organisationId, 'read')
    const rename = (suffix: string) =>
      libsql
        .db()
        .batch([{ sql: 'update api_keys set secret_hash = ? where id = ?', values: [suffix, id] }])
    const [row] = await libsql
      .db()
      .all<{ secret_hash: string }>('select secret_hash from api_keys where id = ?', id)
    await rename('not yet')
    expect((await ask(secret, '10.0.0.6')).status).toBe(401)
    await rename(row?.secret_hash ?? '')
    expect((await ask(secret, '10.0.0.6')).status).toBe(401)
    app.pass(10_000)
    expect((await ask(secret, '10.0.0.6')).status).toBe(404)
  })

  test('[AUTH1] last used is written, at most once a minute', async () => {
    const { id, secret } = await app.makeKey(organisationId, 'read')
    const lastUsed = async () => {
      await app.settle()
      const rows = await libsql
        .db()
        .all<{ last_used_at: number }>('select last_used_at from api_keys where id = ?', id)
      return rows[0]?.last_used_at ?? null
    }
    expect(await lastUsed()).toBeNull()
    await app.call('GET', '/v1/turns/x', secret)
    const first = await lastUsed()
    expect(first).toBe(app.deps.now())
    app.pass(40_000)
    await app.call('GET', '/v1/turns/x', secret)
    expect(await lastUsed()).toBe(first)
    app.pass(40_000)
    await app.call('GET', '/v1/turns/x', secret)
    expect(await lastUsed()).toBe(app.deps.now())
  })

  test('a revoked key is refused at once where it was revoked', async () => {
    const admin = await app.makeKey(organisationId, 'admin')
    const other = await app.makeKey(organisationId, 'read')
    expect((await app.call('GET', '/v1/sessions', other.secret)).status).toBe(200)
    expect((await app.call('DELETE', `/v1/keys/${other.id}`, admin.secret)).status).toBe(204)
    expect((await app.call('DELETE', `/v1/keys/${other.id}`, admin.secret)).status).toBe(204)
    expect(await codeOf('/v1/sessions', other.secret)).toEqual([401, 'unauthenticated'])
  })

  test('a key of another organisation is not found', async () => {
    const admin = await app.makeKey(organisationId, 'admin')
    const stranger = await app.makeKey(await app.makeOrganisation(), 'read')
    expect(await codeOf(`/v1/keys/${stranger.id}`, admin.secret, 'DELETE')).toEqual([
      404,
      'not_found',
    ])
    const { json } = await app.call('GET', '/v1/keys?limit=200', admin.secret)
    expect(json.items.map(({ id }: { id: string }) => id)).not.toContain(stranger.id)
  })

  test('[AUTH1] an expired key is refused, also out of the cache', async () => {
    const admin = await app.makeKey(organisationId, 'admin')
    const expiresAt = app.deps.now() + 10_000
    const made = await app.call('POST', '/v1/keys', admin.secret, {
      name: 'short',
      scopes: ['read'],
      expiresAt,
    })
    expect(made.status).toBe(201)
    expect((await app.call('GET', '/v1/sessions', made.json.secret)).status).toBe(200)
    app.pass(10_000)
    expect(await codeOf('/v1/sessions', made.json.secret)).toEqual([401, 'unauthenticated'])
    const past = await app.call('POST', '/v1/keys', admin.secret, {
      name: 'past',
      scopes: ['read'],
      expiresAt: 1,
    })
    expect([past.status, past.json.error.details[0].path]).toEqual([400, 'expiresAt'])
  })

  test('[AUTH1] a secret is shown once and stored only as its hash', async () => {
    const admin = await app.makeKey(organisationId, 'admin')
    const made = await app.call('POST', '/v1/keys', admin.secret, { name: 'n', scopes: ['read'] })
    expect(made.json.owner).toBe('test')
    const list = await app.call('GET', '/v1/keys?limit=200', admin.secret)
    expect(list.text).toContain(made.json.id)
    expect(list.text).not.toContain(made.json.secret)
    const rows = await libsql.db().all('select * from api_keys')
    expect(JSON.stringify(rows)).not.toContain(made.json.secret)
  })

  test('[AUTH3] while libSQL is away, known keys go on and unknown ones get 503', async () => {
    const { secret } = await app.makeKey(organisationId, 'read')
    await app.call('GET', '/v1/turns/x', secret)
    away = true
    try {
      expect(await codeOf('/v1/turns/x', secret)).toEqual([404, 'not_found'])
      expect(await codeOf('/v1/turns/x', `gk_${'2'.repeat(32)}`)).toEqual([
        503,
        'storage_unavailable',
      ])
      const status = await app.call('GET', '/v1/status', secret)
      expect([status.status, status.json.libsql.reachable]).toEqual([200, false])
    } finally {
      away = false
    }
    const status = await app.call('GET', '/v1/status', secret)
    expect(status.json).toMatchObject({ libsql: { reachable: true }, host: 'workerd' })
  })

  test('[AUTH8] a key that asks too fast waits, and no other key with it', async () => {
    const slow = createTestApp({ db: libsql.db, rateLimitPerMinute: 3 })
    const [a, b] = [
      await slow.makeKey(organisationId, 'read'),
      await slow.makeKey(organisationId, 'read'),
    ]
    const statuses = []
    for (let i = 0; i < 4; i++)
      statuses.push((await slow.call('GET', '/v1/turns/x', a.secret)).status)
    expect(statuses).toEqual([404, 404, 404, 429])
    const refused = await slow.call('GET', '/v1/turns/x', a.secret)
    expect([refused.json.error.code, refused.headers.get('retry-after')]).toEqual([
      'rate_limited',
      '20',
    ])
    expect((await slow.call('GET', '/v1/turns/x', b.secret)).status).toBe(404)
    slow.pass(20_000)
    expect((await slow.call('GET', '/v1/turns/x', a.secret)).status).toBe(404)
  })

  test('[AUTH14] a sandbox has the same limit by generation; a link, a manifest and an upload cost more than a call', async () => {
    const limited = createTestApp({ db: libsql.db, rateLimitPerMinute: 100 })
    const organisation = await limited.makeOrganisation()
    const { secret } = await limited.makeKey(organisation, 'admin')
    const sessionOf = async () => (await limited.call('POST', '/v1/sessions', secret, {})).json.id
    const countOf = async (send: (id: string, token: string) => Promise<{ status: number }>) => {
      const id = await sessionOf()
      const mint = (generation: number) =>
        limited.deps.tokens.mint({ sessionId: id, organisationId: organisation, generation })
      const [{ token }, { token: other }] = [await mint(1), await mint(2)]
      let passed = 0
      while (passed < 1000 && (await send(id, token)).status !== 429) passed += 1
      expect((await send(id, other)).status).toBe(403)
      limited.pass(60_000)
      expect((await send(id, token)).status).not.toBe(429)
      return passed
    }
    const get = (path: string) => (id: string, token: string) =>
      limited.call('GET', `/sandbox/${id}/${path}`, token)
    const call = (id: string, token: string) => {
      const body = { tool_call_id: 'a', args: {} }
      return limited.call('POST', `/proliferate/${id}/tools/echo`, token, body)
    }
    const upload = (id: string, token: string) =>
      limited.call('PUT', `/sandbox/${id}/artifacts`, token, 'x')
    expect(await countOf(call)).toBe(100)
    expect(await countOf(get('link'))).toBe(4)
    expect(await countOf(get('env'))).toBe(20)
    expect(await countOf(upload)).toBe(20)
  })
})

describe('sandbox tokens', () => {
  test('[AUTH6] a valid one is known but has no business on an API route', async () => {
    const sessionId = await app.deps.ids.mint()
    const { token } = await app.deps.tokens.mint({ sessionId, organisationId, generation: 1 })
    expect(await codeOf('/v1/sessions', token)).toEqual([403, 'forbidden'])
    app.pass(3_600_000)
    expect(await codeOf('/v1/sessions', token)).toEqual([401, 'token_expired'])
  })

  test('the link alone lets an expired one in, and tells the host', async () => {
    const admin = await app.makeKey(organisationId, 'admin')
    const { json } = await app.call('POST', '/v1/sessions', admin.secret, {})
    const mint = async () =>
      (await app.deps.tokens.mint({ sessionId: json.id, organisationId, generation: 1 })).token
    const old = await mint()
    app.pass(3_600_000)
    const link = (token: string) =>
      app.call('GET', `/sandbox/${json.id}/link`, token, undefined, { upgrade: 'websocket' })
    expect((await link(old)).headers.get('x-expired')).toBe('true')
    expect((await link(await mint())).headers.get('x-expired')).toBe('false')
    expect(await codeOf(`/sandbox/${json.id}/manifest`, old)).toEqual([401, 'token_expired'])
    expect(await codeOf(`/sandbox/${json.id}/link`, await mint())).toEqual([400, 'invalid_request'])
  })

  test('[LINK7] an hour after its end it is not renewed any more, and the route says so without an upgrade', async () => {
    const admin = await app.makeKey(organisationId, 'admin')
    const { json } = await app.call('POST', '/v1/sessions', admin.secret, {})
    const { token } = await app.deps.tokens.mint({
      ...{ sessionId: json.id, organisationId, generation: 1 },
    })
    app.pass(2 * 3_600_000 - 1000)
    expect(await codeOf(`/sandbox/${json.id}/link`, token)).toEqual([400, 'invalid_request'])
    app.pass(2000)
    expect(await codeOf(`/sandbox/${json.id}/link`, token)).toEqual([401, 'token_expired'])
    const upgrade = { upgrade: 'websocket' }
    const link = await app.call('GET', `/sandbox/${json.id}/link`, token, undefined, upgrade)
    expect([link.status, link.json.error.code]).toEqual([401, 'token_expired'])
  })
})
