import { beforeEach, describe, expect, test } from 'vitest'
import { newKeyMs } from '../../src/core/registry/keys.ts'
import { createTestApp, type TestApp } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'

const libsql = useLibsql()
let app: TestApp
let organisationId: string
/** Keys of the operator's making: they have no maker. */
let key: string
let memberId: string
beforeEach(async () => {
  app = createTestApp({ db: libsql.db })
  organisationId = await app.makeOrganisation()
  ;({ secret: key, memberId } = await app.makeKey(organisationId, 'admin'))
})

const post = (path: string, body: unknown, credential = key) =>
  app.call('POST', path, credential, body)
const get = async (path: string) => (await app.call('GET', path, key)).json
const makeKey = async (owner: string, credential = key, scopes = ['admin']) =>
  (await post('/v1/keys', { name: 'k', owner, scopes }, credential)).json
const allowNewKeys = (newKeysCount: boolean, credential = key) =>
  app.call('PUT', '/v1/settings', credential, { newKeysCount })
const outcome = ({ status, json }: Awaited<ReturnType<typeof post>>) => [
  status,
  json?.error?.code ?? json?.state,
]

/** An operation waits for so many, of this group. */
async function ask(quorum = 1, group?: string[], credential = key): Promise<string> {
  const terms = { quorum, ...(group && { group: 'people' }) }
  const source = JSON.stringify({
    name: 'votes',
    approvals: terms,
    ...(group && { groups: { people: group } }),
  })
  await app.call('PUT', '/v1/policies', key, { source, format: 'json' })
  const run = (await post('/v1/runs', { intent: 'i' }, credential)).json
  const operation = { category: 'edit', operation: 'write-file', targetPath: 'a', content: '' }
  const asked = await post(`/v1/runs/${run.id}/operations`, { operation }, credential)
  return asked.json.approvalId
}
const approve = async (id: string, credential: string) =>
  outcome(await post(`/v1/approvals/${id}/resolve`, { resolution: 'approved' }, credential))
const refused = [403, 'forbidden']

describe('[APR12] a key that is new', () => {
  test('counts as its maker’s for a day: nobody approves through a member of the own making', async () => {
    const made = await makeKey('Anna')
    expect(made.countsAs).toEqual({ memberId, owner: 'test', until: made.createdAt + newKeyMs })
    const id = await ask()
    const answer = await post(
      `/v1/approvals/${id}/resolve`,
      { resolution: 'approved' },
      made.secret,
    )
    expect(outcome(answer)).toEqual(refused)
    expect(answer.json.error.message).toContain('counts as that of "test", who has made it')
    app.pass(newKeyMs - 60_000)
    const late = await ask()
    expect(await approve(late, made.secret)).toEqual(refused)
    app.pass(60_000)
    const later = await ask()
    expect(await approve(later, made.secret)).toEqual([200, 'approved'])
  })

  test('does not hide who made it: not through a member’s member, and not by asking through it', async () => {
    const anna = await makeKey('Anna')
    const ben = await makeKey('Ben', anna.secret)
    const another = await makeKey('Anna', anna.secret)
    for (const made of [ben, another]) {
      expect(made.countsAs).toMatchObject({ memberId })
      expect(await approve(await ask(), made.secret)).toEqual(refused)
    }
    const askedThrough = await ask(1, undefined, anna.secret)
    for (const { secret } of [anna, ben, { secret: key }])
      expect(await approve(askedThrough, secret)).toEqual(refused)
  })

  test('three keys of one admin, and those of members that it made, are one vote', async () => {
    const asker = (await makeKey('asker')).secret
    await allowNewKeys(true)
    const id = await ask(2, undefined, asker)
    await allowNewKeys(false)
    const keys = [key, (await makeKey('test')).secret, (await makeKey('Cleo')).secret]
    for (const secret of keys) expect(await approve(id, secret)).toEqual([200, 'pending'])
    const { votes } = await get(`/v1/approvals/${id}`)
    expect(votes).toMatchObject([{ owner: 'test' }])
    await allowNewKeys(true)
    expect(await approve(id, keys[2] ?? '')).toEqual([200, 'approved'])
  })

  test('counts at once as the own member’s, and if the operator has made it', async () => {
    expect((await makeKey('test')).countsAs).toBeNull()
    const { countsAs } = await app.makeKey(organisationId, 'approve')
    expect(countsAs).toBeNull()
  })

  test('may resolve what a sandbox or somebody else asked, as its maker may', async () => {
    const asker = await makeKey('asker')
    app.pass(newKeyMs)
    const id = await ask(1, undefined, asker.secret)
    expect(await approve(id, (await makeKey('Dora')).secret)).toEqual([200, 'approved'])
  })
})

describe('[MBR11] the setting', () => {
  test('lets new keys count at once, is for admins, and each change is on record once', async () => {
    expect(await get('/v1/settings')).toEqual({ newKeysCount: false })
    const made = await makeKey('Anna')
    const writer = await makeKey('Ben', key, ['write', 'approve'])
    expect(outcome(await allowNewKeys(true, writer.secret))).toEqual(refused)
    const id = await ask()
    expect(await approve(id, made.secret)).toEqual(refused)
    for (const allowed of [true, true, false, true])
      expect((await allowNewKeys(allowed)).json).toEqual({ newKeysCount: allowed })
    expect(await approve(id, made.secret)).toEqual([200, 'approved'])
    const { items } = await get('/v1/audit?limit=200')
    const changes = items.filter(({ action }: { action: string }) => action === 'settings.changed')
    expect(changes).toHaveLength(3)
    expect(changes[0]).toMatchObject({ subject: organisationId })
    const stranger = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
    const theirs = await app.call('GET', '/v1/settings', stranger)
    expect(theirs.json).toEqual({ newKeysCount: false })
  })

  test('says everything that can be set', async () => {
    for (const body of [{}, { newKeysCount: 'yes' }, { newKeysCount: true, more: 1 }])
      expect((await app.call('PUT', '/v1/settings', key, body)).status).toBe(400)
  })
})

describe('[APR4] a group', () => {
  test('lists members, with all their keys, and keys', async () => {
    await allowNewKeys(true)
    const [anna, ben, cleo] = [await makeKey('Anna'), await makeKey('Ben'), await makeKey('Cleo')]
    const group = [anna.memberId, ben.id]
    const others = [cleo.secret, (await makeKey('Ben')).secret]
    for (const secret of [anna.secret, (await makeKey('Anna')).secret, ben.secret]) {
      const id = await ask(1, group)
      for (const other of others) expect(await approve(id, other)).toEqual(refused)
      expect(await approve(id, secret)).toEqual([200, 'approved'])
    }
  })

  test('is not entered by a new key for one of its members', async () => {
    const asker = await makeKey('asker')
    const anna = await makeKey('Anna')
    app.pass(newKeyMs)
    const id = await ask(1, [anna.memberId], asker.secret)
    expect(await approve(id, (await makeKey('Anna')).secret)).toEqual(refused)
    expect(await approve(id, anna.secret)).toEqual([200, 'approved'])
  })

  test.each(['mbr_1', 'org_00000000000000000000', 'Anna'])('does not list %s', async (entry) => {
    const source = JSON.stringify({ name: 'g', groups: { people: [entry] } })
    const answer = await app.call('PUT', '/v1/policies', key, { source, format: 'json' })
    expect(answer.status).toBe(422)
    expect(answer.text).toContain('Must be the id of a member (mbr_…) or of a key (key_…)')
  })
})
