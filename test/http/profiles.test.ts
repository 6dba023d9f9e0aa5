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

const call = (method: string, path: string, body?: unknown, credential = key) =>
  app.call(method, path, credential, body)
const put = (body: object, credential = key) => call('PUT', '/v1/profiles', body, credential)
const stored = async (body: object, credential = key) => {
  const { status, json } = await put(body, credential)
  expect([status, json.error]).toEqual([200, undefined])
  return json
}
const get = async (path: string, credential = key) =>
  (await call('GET', path, undefined, credential)).json
const names = async (query: string, credential = key) =>
  (await get(`/v1/profiles?${query}`, credential)).items.map(({ name }: { name: string }) => name)
const statusOf = async (...request: Parameters<typeof call>) => (await call(...request)).status

describe('[PROF1] storing a profile by project, scope and name', () => {
  test('gives a stable id, models by their ids, and every revision', async () => {
    const made = await stored({
      ...{ project: 'prof1', name: 'gantry-manager', orchestrator: 'Claude-Opus-4-6' },
      ...{ subagents: { helper: 'litellm/gpt-5.2' }, phases: { apply: 'scripted' } },
    })
    expect(made).toMatchObject({
      id: expect.stringMatching(/^prf_[0-9a-z]{20}$/),
      ...{ orchestrator: 'claude-opus-4.6', agents: {}, subagents: { helper: 'gpt-5.2' } },
      ...{ phases: { apply: 'scripted' }, revision: 1, scope: 'project', archivedAt: null },
    })
    expect(await get('/v1/profiles/by-name/gantry-manager?project=prof1')).toEqual(made)
    expect(await get(`/v1/profiles/${made.id}`)).toEqual(made)
    const body = { project: 'prof1', name: 'gantry-manager', orchestrator: 'scripted' }
    const next = await stored(body)
    expect([next.id, next.revision]).toEqual([made.id, 2])
    expect(await stored(body)).toEqual(next)
    const back = { ...body, orchestrator: 'claude-opus-4.6' }
    const third = await stored({
      ...back,
      ...{ subagents: { helper: 'gpt-5.2' }, phases: { apply: 'scripted' } },
    })
    expect([third.revision, third.sha256]).toEqual([3, made.sha256])
    const first = await get(`/v1/profiles/${made.id}/revisions?limit=1`)
    const rest = await get(`/v1/profiles/${made.id}/revisions?cursor=${first.nextCursor}`)
    expect(rest.nextCursor).toBeNull()
    expect([...first.items, ...rest.items]).toMatchObject([
      { revision: 1, orchestrator: 'claude-opus-4.6', sha256: made.sha256 },
      { revision: 2, orchestrator: 'scripted', phases: {} },
      { revision: 3 },
    ])
  })

  test('names every model that is not served, and stores nothing', async () => {
    const wrong = { orchestrator: 'nonsense', agents: { a: 'scripted' }, phases: { verify: 'huh' } }
    const { status, json } = await put({ project: 'prof1b', name: 'a', ...wrong })
    expect([status, json.error.code]).toEqual([422, 'unprocessable'])
    expect(json.error.details.map(({ path }: { path: string }) => path)).toEqual([
      ...['orchestrator', 'phases.verify'],
    ])
    expect(await names('project=prof1b')).toEqual([])
    const unknown = await put({ name: 'a', models: {} })
    expect([unknown.status, unknown.json.error.details[0].path]).toEqual([400, 'models'])
  })

  test('is archived and comes back under its id', async () => {
    const made = await stored({ project: 'prof1c', name: 'a' })
    const archived = (await call('POST', `/v1/profiles/${made.id}/archive`)).json
    expect(archived.archivedAt).toBe(app.deps.now())
    app.pass(1000)
    expect((await call('POST', `/v1/profiles/${made.id}/archive`)).json).toEqual(archived)
    expect(await names('project=prof1c')).toEqual([])
    const back = await stored({ project: 'prof1c', name: 'a' })
    expect(back).toMatchObject({ id: made.id, revision: 2, archivedAt: null })
  })

  test('lists by name and in pages, filtered', async () => {
    for (const name of ['c', 'a', 'b']) await stored({ project: 'prof1d', name })
    await stored({ project: 'prof1d', name: 'own', scope: 'personal' })
    const page = await get('/v1/profiles?project=prof1d&limit=2')
    const next = await get(`/v1/profiles?project=prof1d&limit=2&cursor=${page.nextCursor}`)
    const all = [...page.items, ...next.items].map(({ name }) => name)
    expect([all, next.nextCursor]).toEqual([['a', 'b', 'c', 'own'], null])
    expect(await names('project=prof1d&scope=personal')).toEqual(['own'])
    expect(await statusOf('GET', '/v1/profiles?cursor=nonsense')).toBe(400)
  })

  test('is nobody else’s: not another organisation’s, not another member’s, not a limited key’s', async () => {
    const own = await stored({ project: 'prof1e', name: 'a', scope: 'personal' })
    const shared = await stored({ project: 'prof1e', name: 'a' })
    expect(shared.id).not.toBe(own.id)
    const { secret } = (
      await call('POST', '/v1/keys', { name: 'k', owner: 'colleague', scopes: ['write'] })
    ).json
    const limits = { projects: ['prof1-other'] }
    const limited = (await call('POST', '/v1/keys', { name: 'k', scopes: ['write'], limits })).json
    const at = `/v1/profiles/${own.id}`
    const byName = '/v1/profiles/by-name/a?project=prof1e&scope=personal'
    for (const other of [secret, stranger, limited.secret]) {
      for (const path of [at, `${at}/revisions`, byName])
        expect(await statusOf('GET', path, undefined, other)).toBe(404)
      expect(await statusOf('POST', `${at}/archive`, undefined, other)).toBe(404)
    }
    expect(await names('project=prof1e', secret)).toEqual(['a'])
    expect(await names('project=prof1e', stranger)).toEqual([])
    expect(await names('', limited.secret)).toEqual([])
    const here = { name: 'k', scopes: ['read'], limits: { projects: ['prof1e'] } }
    const allowed = (await call('POST', '/v1/keys', here)).json.secret
    expect(await names('scope=project', allowed)).toEqual(['a'])
    expect((await put({ project: 'prof1e', name: 'x' }, limited.secret)).status).toBe(403)
  })
})
