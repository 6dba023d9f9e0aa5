import { beforeAll, describe, expect, test } from 'vitest'
import { createTestApp, type TestApp } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'

const libsql = useLibsql()
let app: TestApp
let admin: string
beforeAll(async () => {
  app = createTestApp({ db: libsql.db })
  admin = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
})

const post = (path: string, credential: string, body?: unknown, headers = {}) =>
  app.call('POST', path, credential, body, headers)
const get = (path: string, credential = admin) => app.call('GET', path, credential)
const outcome = ({ status, json }: Awaited<ReturnType<typeof post>>) => [status, json?.error?.code]
const secretOf = async (owner: string, limits?: object, scopes = ['write', 'approve']) =>
  (await post('/v1/keys', admin, { name: 'k', owner, scopes, limits })).json.secret as string
const idsOf = async (path: string, credential: string) =>
  (await get(path, credential)).json.items.map(({ id }: { id: string }) => id)

describe('[MBR6] the limits of a key', () => {
  test('are shown to admins, and are in the audit', async () => {
    const limits = { projects: ['web', 'api'], ownSessions: true }
    const body = { name: 'limited', scopes: ['read'], limits }
    const made = (await post('/v1/keys', admin, body)).json
    const free = (await post('/v1/keys', admin, { ...body, limits: undefined })).json
    expect([made.limits, free.limits]).toEqual([limits, null])
    const { items } = (await get('/v1/keys?limit=200')).json
    for (const { id, limits: shown } of [made, free])
      expect(items).toContainEqual(expect.objectContaining({ id, limits: shown }))
    const audit = (await get('/v1/audit?limit=200')).json.items
    expect(audit).toContainEqual(
      expect.objectContaining({ subject: made.id, detail: expect.objectContaining({ limits }) }),
    )
  })

  test('say something, name projects by their names, and are not for admins', async () => {
    const key = { name: 'k', scopes: ['read'] }
    for (const limits of [{}, { projects: [] }, { projects: ['No!'] }, { ownSessions: false }])
      expect(outcome(await post('/v1/keys', admin, { ...key, limits }))).toEqual([
        400,
        'invalid_request',
      ])
    const both = await post('/v1/keys', admin, {
      ...key,
      scopes: ['read', 'admin'],
      limits: { ownSessions: true },
    })
    expect(outcome(both)).toEqual([400, 'invalid_request'])
    expect(both.json.error.details[0].path).toBe('limits')
  })

  test('a release that knows none finds no such key', async () => {
    const secret = await secretOf('Zoe', { ownSessions: true })
    const hash = await app.deps.crypto.sha256(secret)
    const asReleased = 'select 1 from api_keys where secret_hash = ?'
    expect(await libsql.db().all(asReleased, hash)).toEqual([])
    expect((await get('/v1/sessions', secret)).status).toBe(200)
  })
})

describe('[MBR7] a limited key', () => {
  /** Anna's in two projects, and Ben's. */
  let sessions: Record<'annaWeb' | 'annaApi' | 'benWeb', { id: string; memberId: string }>
  const paths: Record<string, string[]> = {}
  beforeAll(async () => {
    const [anna, ben] = [await secretOf('Anna'), await secretOf('Ben')]
    const make = async (name: keyof typeof sessions, key: string, project: string) => {
      app.pass(1)
      const { json: session } = await post('/v1/sessions', key, { project, sandbox: 'none' })
      const run = (await post(`/v1/sessions/${session.id}/runs`, key, { intent: 'i' })).json
      const operation = { category: 'edit', operation: 'write-file', targetPath: 'a', content: '' }
      const asked = (await post(`/v1/runs/${run.id}/operations`, key, { operation })).json
      paths[name] = [
        ...['', '/events', '/turns', '/runs', '/approvals', '/artifacts', '/budget', '/calls'].map(
          (rest) => `/v1/sessions/${session.id}${rest}`,
        ),
        `/v1/runs/${run.id}`,
        `/v1/approvals/${asked.approvalId}`,
        `/v1/operations/${asked.id}`,
      ]
      return session
    }
    sessions = {
      annaWeb: await make('annaWeb', anna, 'web'),
      annaApi: await make('annaApi', anna, 'api'),
      benWeb: await make('benWeb', ben, 'web'),
    }
    await app.settle()
  })

  test.each([
    ['one project', { projects: ['web'] }, ['benWeb', 'annaWeb']],
    ['two projects', { projects: ['api', 'web'] }, ['benWeb', 'annaApi', 'annaWeb']],
    ['another project', { projects: ['other'] }, []],
    ['own sessions', { ownSessions: true }, ['annaApi', 'annaWeb']],
    ['own sessions of a project', { ownSessions: true, projects: ['web'] }, ['annaWeb']],
    ['nothing', undefined, ['benWeb', 'annaApi', 'annaWeb']],
  ] as const)('limited to %s sees what is within, and nothing else', async (_, limits, seen) => {
    const key = await secretOf('Anna', limits)
    const within = seen.map((name) => sessions[name].id)
    expect(await idsOf('/v1/sessions', key)).toEqual(within)
    const listed = [
      (await get('/v1/runs', key)).json.items,
      (await get('/v1/approvals', key)).json.items,
    ]
    for (const items of listed)
      expect(items.map(({ sessionId }: { sessionId: string }) => sessionId)).toEqual(within)
    for (const [name, own] of Object.entries(paths)) {
      const isWithin = (seen as readonly string[]).includes(name)
      for (const path of own)
        expect([path, (await get(path, key)).status]).toEqual([path, isWithin ? 200 : 404])
    }
  })

  test('gets no stream of a session outside', async () => {
    const key = await secretOf('Ben', { ownSessions: true })
    const stream = (id: string) =>
      app.app.request(`/v1/sessions/${id}/events`, {
        headers: { authorization: `Bearer ${key}`, accept: 'text/event-stream' },
      })
    const own = await stream(sessions.benWeb.id)
    expect(own.headers.get('content-type')).toContain('text/event-stream')
    await own.body?.cancel()
    expect((await stream(sessions.annaWeb.id)).status).toBe(404)
    const caller = { organisationId: '', keyId: '', memberId: sessions.benWeb.memberId, owner: '' }
    const { organisationId } = (await get(`/v1/sessions/${sessions.annaWeb.id}`)).json
    const limited = { ...caller, organisationId, limits: { ownSessions: true as const } }
    await expect(app.deps.watch(sessions.annaWeb.id, limited)).rejects.toThrow('No such session')
  })

  test('makes sessions and runs in its projects only, and is told which', async () => {
    const key = await secretOf('Anna', { projects: ['web', 'api'] })
    for (const path of ['/v1/sessions', '/v1/runs']) {
      const body = { ...(path === '/v1/runs' ? { intent: 'i' } : { sandbox: 'none' }) }
      for (const outside of [body, { ...body, project: 'other' }]) {
        const refused = await post(path, key, outside)
        expect(outcome(refused)).toEqual([403, 'forbidden'])
        expect(refused.json.error.details).toEqual([
          { path: 'project', message: 'Must be one of "web", "api"' },
        ])
      }
      expect((await post(path, key, { ...body, project: 'api' })).status).toBe(201)
    }
  })

  test('gets nobody else’s session by an Idempotency-Key', async () => {
    const once = { 'idempotency-key': 'shared' }
    const body = { project: 'web', sandbox: 'none' }
    const theirs = await post('/v1/sessions', await secretOf('Ben'), body, once)
    expect(theirs.status).toBe(201)
    const key = await secretOf('Anna', { ownSessions: true })
    expect(outcome(await post('/v1/sessions', key, body, once))).toEqual([404, 'not_found'])
  })

  test('finds the configurations of its projects, and makes sessions of no other', async () => {
    const make = async (project: string) =>
      (await post('/v1/configurations', admin, { name: project, project })).json.id as string
    const [web, other] = [await make('web'), await make('other')]
    const key = await secretOf('Anna', { projects: ['web'] })
    expect(await idsOf('/v1/configurations', key)).toEqual([web])
    expect((await get(`/v1/configurations/${web}`, key)).status).toBe(200)
    for (const project of [undefined, 'web', 'other']) {
      const made = await post('/v1/sessions', key, { configurationId: other, project })
      expect(outcome(made)).toEqual([404, 'not_found'])
    }
    const made = await post('/v1/sessions', key, { configurationId: web })
    expect([made.status, made.json.project]).toEqual([201, 'web'])
  })

  test('is answered alike about what is outside, whatever it sends', async () => {
    const key = await secretOf('Ben', { ownSessions: true })
    const path = `/v1/sessions/${sessions.annaWeb.id}`
    for (const answer of [
      await post(`${path}/prompts`, key, { nonsense: 1 }),
      await post(`${path}/prompts`, key, { text: 'hello' }),
      await app.call('DELETE', path, key),
    ])
      expect(outcome(answer)).toEqual([404, 'not_found'])
    expect((await get(path)).json.status).toBe('open')
  })
})

describe('[MBR9] a session', () => {
  test('shows the member that made it, whatever key is used later', async () => {
    const anna = (await post('/v1/keys', admin, { name: 'k', owner: 'Anna', scopes: ['write'] }))
      .json
    const { id, memberId } = (await post('/v1/sessions', anna.secret, { sandbox: 'none' })).json
    expect(memberId).toBe(anna.memberId)
    expect((await get(`/v1/sessions/${id}`)).json.memberId).toBe(memberId)
    await app.settle()
    const { items } = (await get('/v1/sessions?limit=200')).json
    expect(items).toContainEqual(expect.objectContaining({ id, memberId }))
  })
})
