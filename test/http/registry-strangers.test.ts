import { describe, expect, test } from 'vitest'
import { createTestApp } from '../support/app.ts'
import { memoryDb } from '../support/memory-db.ts'
import { cases, rowsOf, type World } from '../support/registry-cases.ts'

/** Makes of whatever is stored somebody's own. */
const personal = (path: string, body: unknown): unknown =>
  /^\/v1\/(agents|profiles|skills|memories)$/.test(path)
    ? { ...(body as object), scope: 'personal' }
    : body

async function newWorld(own: boolean) {
  const store = memoryDb()
  const app = createTestApp({ db: () => store })
  const admin = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
  const stranger = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
  const ok: World['ok'] = async (method, path, body, as = admin) => {
    const sent = own ? personal(path, body) : body
    const { status, json, text } = await app.call(method, path, as, sent)
    expect([method, path, status < 300, text]).toEqual([method, path, true, text])
    return json
  }
  await ok('PUT', '/v1/settings', { newKeysCount: true })
  const newKey = async (owner: string, more: object = {}): Promise<string> =>
    (await ok('POST', '/v1/keys', { name: owner, owner, scopes: ['admin'], ...more })).secret
  const keys = { anna: await newKey('anna'), bert: await newKey('bert') }
  const limited = await newKey('limited', {
    limits: { projects: ['elsewhere'] },
    scopes: ['write', 'approve'],
  })
  return { store, app, world: { ok, keys }, stranger, limited, bert: keys.bert }
}

const byId = /_[0-9a-z]{20}/

describe.each(Object.entries(cases))('%s', (name, { method, given }) => {
  test('[AGT3] [SKILL6] [MEM1] [SDD6] changes nothing of another organisation or project', async () => {
    const { store, app, world, stranger, limited } = await newWorld(false)
    const { path, body } = await given(world)
    const before = await rowsOf(store)
    const send = async (key: string) =>
      (await app.call(method, path, key, body, { 'idempotency-key': 'k' })).status
    expect(await send(limited)).toBe(byId.test(path) ? 404 : 403)
    if (byId.test(path) || name === 'approvePhaseArtifact') expect(await send(stranger)).toBe(404)
    expect(await rowsOf(store)).toBe(before)
  })
})

/** Those that are about one row which may be a member's own. */
const own = Object.entries(cases).filter(
  ([name]) => !/Phase|apply|resolveSkill|importMem|storeShipped|put|createMem/.test(name),
)
test.each(own)(
  '[AGT3] [SKILL6] [MEM1] %s changes nothing of what is another member’s own',
  async (_, { method, given }) => {
    const { store, app, world, bert } = await newWorld(true)
    const { path, body } = await given(world)
    const before = await rowsOf(store)
    const { status } = await app.call(method, path, bert, body, { 'idempotency-key': 'k' })
    expect([path, status]).toEqual([path, 404])
    expect(await rowsOf(store)).toBe(before)
  },
)

describe('names of others', () => {
  const things: [string, (name: string) => [string, string, object]][] = [
    ['/v1/agents', (name) => ['PUT', '/v1/agents', { name }]],
    ['/v1/profiles', (name) => ['PUT', '/v1/profiles', { name }]],
    ['/v1/skills', (name) => ['PUT', '/v1/skills', { name, description: name }]],
    ['/v1/memories', (name) => ['POST', '/v1/memories', { title: name, content: name }]],
    ['/v1/changes', (name) => ['PUT', `/v1/changes/${name}/phases/explore`, { content: name }]],
  ]

  test.each(things)(
    '[AGT11] [SKILL6] [MEM5] [SDD6] are in no page of %s, and change no order',
    async (list, make) => {
      const { app, world, stranger, bert } = await newWorld(false)
      const send = async (key: string, name: string, more: object = {}) => {
        const [method, path, body] = make(name)
        const { status, text } = await app.call(method, path, key, { ...body, ...more })
        expect([status < 300, text]).toEqual([true, text])
      }
      const isPhases = list === '/v1/changes'
      const names = ['bb', 'dd', 'ff', 'hh', 'jj']
      const key = world.keys.anna
      for (const name of names) await send(key, name)
      const pages = async () => {
        const found: string[][] = []
        let cursor: string | null = ''
        while (cursor !== null) {
          const after: string = cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`
          const { json } = await app.call('GET', `${list}?limit=2${after}`, key)
          found.push(
            json.items.map(
              (item: Record<string, string>) => item['name'] ?? item['title'] ?? item['change'],
            ),
          )
          cursor = json.nextCursor ?? null
        }
        return found
      }
      const before = await pages()
      expect(before.map((page) => page.length)).toEqual([2, 2, 1])
      expect(before.flat().toSorted()).toEqual(names)
      for (const name of ['aa', 'bb', 'cc', 'gg', 'zz']) {
        await send(stranger, name)
        await send(stranger, name, { project: 'elsewhere' })
        if (!isPhases) await send(bert, name, { scope: 'personal' })
      }
      expect(await pages()).toEqual(before)
    },
  )

  test.each(things.slice(0, 3))(
    '[AGT3] [SKILL1] [PROF1] one name in %s is a row of the project and one of each member',
    async (_, make) => {
      const { app, world } = await newWorld(false)
      const idOf = async (key: string, scope: string) => {
        const [method, path, body] = make('same')
        return (await app.call(method, path, key, { ...body, scope })).json.id as string
      }
      const { anna, bert } = world.keys
      const asked = [
        [anna, 'project'],
        [anna, 'personal'],
        [bert, 'personal'],
        [bert, 'project'],
      ] as const
      const ids: string[] = []
      for (const [key, scope] of asked) ids.push(await idOf(key, scope))
      expect(new Set(ids).size).toBe(3)
      expect(ids[0]).toBe(ids[3])
    },
  )
})

test('[SKILL5] [SKILL6] skills are listed by what they are attached to', async () => {
  const { app, world } = await newWorld(false)
  const { anna } = world.keys
  for (const [name, target] of [
    ['a', 'agent/lead'],
    ['b', 'subagent/lead'],
    ['c', 'agent/other'],
  ] as const) {
    const body = { name, description: name }
    const { json } = await app.call('PUT', '/v1/skills', anna, body)
    await app.call('PUT', `/v1/skills/${json.id}/attachments/${target}`, anna)
  }
  const names = async (query: string) =>
    (await app.call('GET', `/v1/skills?${query}`, anna)).json.items
      .map(({ name }: { name: string }) => name)
      .toSorted()
  expect(await names('targetType=agent')).toEqual(['a', 'c'])
  expect(await names('targetKey=lead')).toEqual(['a', 'b'])
  expect(await names('targetType=agent&targetKey=lead')).toEqual(['a'])
})

test('[SKILL15] uses are listed page by page, newest first', async () => {
  const { store, app, world } = await newWorld(false)
  const { anna } = world.keys
  const body = { name: 'used', description: 'd' }
  const { id } = (await app.call('PUT', '/v1/skills', anna, body)).json
  const [row] = await store.all<{ org: string }>(
    'select organisation_id as org from skills where id = ?',
    id,
  )
  for (let n = 1; n <= 5; n += 1)
    await store.batch([
      {
        sql: `insert into skill_usage (id, organisation_id, session_id, run_id, skill_id, version, outcome, actor, note,
                created_at, outbox_seq) values (?, ?, 'ses_a', 'run_a', ?, ?, 'helped', 'k', '', ?, 1)`,
        values: [`sku_${'0'.repeat(19)}${n}`, row?.org ?? '', id, n, Math.ceil(n / 2)],
      },
    ])
  const versions: number[] = []
  let cursor = ''
  for (let page = 0; page < 3; page += 1) {
    const { json } = await app.call('GET', `/v1/skills/${id}/usage?limit=2${cursor}`, anna)
    versions.push(...json.items.map(({ version }: { version: number }) => version))
    cursor = `&cursor=${encodeURIComponent(json.nextCursor ?? '')}`
  }
  expect(versions).toEqual([5, 4, 3, 2, 1])
})
