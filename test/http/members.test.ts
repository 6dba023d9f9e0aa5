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

const post = (path: string, body?: unknown, headers = {}, credential = key) =>
  app.call('POST', path, credential, body, headers)
const get = (path: string, credential = key) => app.call('GET', path, credential)
const outcome = ({ status, json }: Awaited<ReturnType<typeof post>>) => [status, json?.error?.code]
const makeKey = async (input: object, credential = key) =>
  (await post('/v1/keys', { name: 'k', scopes: ['admin'], ...input }, {}, credential)).json
const mine = async () => (await get('/v1/keys')).json.items[0]

describe('[MBR1] a member', () => {
  test('is made, shown and listed oldest first, in pages', async () => {
    // Behind the member of the first key.
    app.pass(1)
    const made = await post('/v1/members', { name: 'Anna', identity: 'anna@example.com' })
    expect(made.status).toBe(201)
    expect(made.json).toMatchObject({
      id: expect.stringMatching(/^mbr_[0-9a-z]{20}$/),
      name: 'Anna',
      identity: 'anna@example.com',
      createdBy: (await mine()).id,
      disabledAt: null,
    })
    expect(made.headers.get('location')).toBe(`/v1/members/${made.json.id}`)
    expect((await get(`/v1/members/${made.json.id}`)).json).toEqual(made.json)
    app.pass(1)
    await post('/v1/members', { name: 'Ben' })
    const names: string[] = []
    let cursor = ''
    do {
      const { items, nextCursor } = (await get(`/v1/members?limit=1${cursor}`)).json
      names.push(...items.map(({ name }: { name: string }) => name))
      cursor = nextCursor === null ? '' : `&cursor=${nextCursor}`
    } while (cursor !== '')
    expect(names.filter((name) => ['Anna', 'Ben'].includes(name))).toEqual(['Anna', 'Ben'])
    expect(new Set(names).size).toBe(names.length)
  })

  test('is made once per key and per name', async () => {
    const once = { 'idempotency-key': 'm' }
    const [one, two] = await Promise.all([
      post('/v1/members', { name: 'Cleo' }, once),
      post('/v1/members', { name: 'Cleo' }, once),
    ])
    expect([one.status, two.json]).toEqual([201, one.json])
    expect(outcome(await post('/v1/members', { name: 'Other' }, once))).toEqual([
      409,
      'key_conflict',
    ])
    expect(outcome(await post('/v1/members', { name: 'Cleo' }))).toEqual([409, 'wrong_state'])
    expect(outcome(await post('/v1/members', { name: '' }))[0]).toBe(400)
    expect((await post('/v1/members', { name: 'Cleo' }, {}, stranger)).status).toBe(201)
  })

  test('of another organisation is not there', async () => {
    const { id } = (await post('/v1/members', { name: 'Dora' })).json
    for (const answer of [
      await get(`/v1/members/${id}`, stranger),
      await post(`/v1/members/${id}/disable`, undefined, {}, stranger),
      await post('/v1/keys', { name: 'k', memberId: id, scopes: ['read'] }, {}, stranger),
    ])
      expect(outcome(answer)).toEqual([404, 'not_found'])
    expect((await get(`/v1/members/${id}`)).json.disabledAt).toBeNull()
    const { items } = (await get('/v1/members', stranger)).json
    expect(items.map(({ name }: { name: string }) => name)).not.toContain('Dora')
  })

  test('is the business of admins', async () => {
    const { secret } = await makeKey({ scopes: ['write', 'approve'] })
    for (const answer of [
      await get('/v1/members', secret),
      await post('/v1/members', { name: 'Eve' }, {}, secret),
    ])
      expect(outcome(answer)).toEqual([403, 'forbidden'])
  })
})

describe('[MBR2] a key', () => {
  test('belongs to the member that is named by id or by name, else to the one that asks', async () => {
    const finn = (await post('/v1/members', { name: 'Finn' })).json
    const known = { memberId: finn.id, owner: 'Finn' }
    const byId = await makeKey({ memberId: finn.id })
    expect([byId, await makeKey({ owner: 'Finn' })]).toMatchObject([known, known])
    expect(await makeKey({}, byId.secret)).toMatchObject(known)
    const { memberId, owner } = await mine()
    expect(await makeKey({})).toMatchObject({ memberId, owner })
    const { items } = (await get('/v1/keys?limit=200')).json
    expect(items).toContainEqual(expect.objectContaining({ id: byId.id, ...known }))
  })

  test('with the name of nobody makes a member, once', async () => {
    const keys = await Promise.all([makeKey({ owner: 'Gus' }), makeKey({ owner: 'Gus' })])
    expect(keys[0].memberId).toBe(keys[1].memberId)
    expect((await get(`/v1/members/${keys[0].memberId}`)).json).toMatchObject({
      name: 'Gus',
      identity: '',
      createdBy: (await mine()).id,
    })
  })

  test('names one member, that exists', async () => {
    const { id } = (await post('/v1/members', { name: 'Hugo' })).json
    const wrong = { name: 'k', scopes: ['read'] }
    expect(outcome(await post('/v1/keys', { ...wrong, memberId: id, owner: 'Hugo' }))[0]).toBe(400)
    const unknown = `mbr_${'0'.repeat(20)}`
    expect(outcome(await post('/v1/keys', { ...wrong, memberId: unknown }))[0]).toBe(404)
  })
})

describe('[MBR3] a disabled member', () => {
  test('has no key that opens anything, and gets none', async () => {
    const { secret, memberId } = await makeKey({ owner: 'Ida' })
    await makeKey({ owner: 'Ida' })
    expect((await get('/v1/keys', secret)).status).toBe(200)
    const first = await post(`/v1/members/${memberId}/disable`)
    expect([first.status, typeof first.json.disabledAt]).toEqual([200, 'number'])
    expect(outcome(await get('/v1/keys', secret))).toEqual([401, 'unauthenticated'])
    app.pass(1000)
    expect((await post(`/v1/members/${memberId}/disable`)).json).toEqual(first.json)
    const { items } = (await get('/v1/keys?limit=200')).json
    const revoked = items.filter((item: { memberId: string }) => item.memberId === memberId)
    expect(revoked.map(({ revokedAt }: { revokedAt: number }) => revokedAt)).toEqual(
      Array(2).fill(first.json.disabledAt),
    )
    for (const named of [{ memberId }, { owner: 'Ida' }]) {
      const refused = await post('/v1/keys', { name: 'k', scopes: ['read'], ...named })
      expect(outcome(refused)).toEqual([409, 'wrong_state'])
      expect(refused.json.error.message).toContain('"Ida" is disabled')
    }
    const rows = 'select 1 from api_keys where owner = ?'
    expect(await libsql.db().all(rows, 'Ida')).toHaveLength(2)
  })

  test('is never the one that asks', async () => {
    const { memberId } = await mine()
    expect(outcome(await post(`/v1/members/${memberId}/disable`))).toEqual([409, 'wrong_state'])
    expect((await get('/v1/keys')).status).toBe(200)
  })
})

describe('[MBR5] the audit', () => {
  const entriesOf = async (subject: string, credential = key) =>
    (await get('/v1/audit?limit=200', credential)).json.items.filter(
      (entry: { subject: string }) => entry.subject === subject,
    )

  test('has each deed once, with who did it, newest first', async () => {
    const actor = (await mine()).id
    const made = await makeKey({ owner: 'Jo' })
    const disable = () => post(`/v1/members/${made.memberId}/disable`)
    expect(await entriesOf(made.id)).toMatchObject([
      { action: 'key.created', actor, detail: { owner: 'Jo', scopes: ['admin'] } },
    ])
    const other = await makeKey({ owner: 'Jo' })
    const revoke = () => app.call('DELETE', `/v1/keys/${other.id}`, key)
    app.pass(1)
    await Promise.all([disable(), disable()])
    await revoke()
    await revoke()
    expect(await entriesOf(made.memberId)).toMatchObject([
      { action: 'member.disabled', actor },
      { action: 'member.created', actor, detail: { name: 'Jo' } },
    ])
    expect((await entriesOf(other.id)).map(({ action }: { action: string }) => action)).toEqual(
      expect.arrayContaining(['key.created', 'key.revoked']),
    )
    expect(await entriesOf(other.id)).toHaveLength(2)
    expect(await entriesOf(made.memberId, stranger)).toEqual([])
  })

  test('names the operator where no key acted, and holds nothing of what was refused', async () => {
    const { id } = await mine()
    expect(await entriesOf(id)).toMatchObject([{ action: 'key.created', actor: 'operator' }])
    const { memberId } = await makeKey({ owner: 'Kim' })
    await post('/v1/members', { name: 'Kim' })
    const { items } = (await get('/v1/audit?limit=200')).json
    const named = items.filter(
      (entry: { detail: { name?: string } }) => entry.detail.name === 'Kim',
    )
    expect(named).toMatchObject([{ action: 'member.created', subject: memberId }])
  })

  test('is read by admins alone', async () => {
    const { secret } = await makeKey({ scopes: ['write', 'approve'] })
    expect(outcome(await get('/v1/audit', secret))).toEqual([403, 'forbidden'])
  })
})

describe('[MBR10] what cannot be undone', () => {
  const remove = (id: string, credential: string) =>
    app.call('DELETE', `/v1/sessions/${id}`, credential)
  const write = async (owner: string) =>
    (await makeKey({ owner, scopes: ['write', 'approve'] })).secret as string
  const make = async (credential: string, headers = {}) =>
    (await post('/v1/sessions', { sandbox: 'none' }, headers, credential)).json.id as string

  test('is done by the member that made the session, with any of its keys, and by admins', async () => {
    const lea = await write('Lea')
    for (const who of [lea, await write('Lea'), key]) {
      const id = await make(lea)
      const path = `/v1/sessions/${id}`
      for (const verb of ['replace', 'close'])
        expect((await post(`${path}/${verb}`, {}, {}, who)).status).toBe(200)
      expect((await remove(id, who)).status).toBe(204)
      expect((await get(path, who)).status).toBe(404)
    }
  })

  test('is refused to other members, who may do all else, and changes nothing', async () => {
    const [max, nia] = [await write('Max'), await write('Nia')]
    const once = { 'idempotency-key': 'of Max' }
    const id = await make(max, once)
    const path = `/v1/sessions/${id}`
    for (const answer of [
      await remove(id, nia),
      await post(`${path}/close`, {}, {}, nia),
      await post(`${path}/replace`, {}, {}, nia),
    ]) {
      expect(outcome(answer)).toEqual([403, 'forbidden'])
      expect(answer.json.error.message).toContain('another member has made it')
    }
    expect((await post(`${path}/runs`, { intent: 'i' }, {}, nia)).status).toBe(201)
    expect((await get(path, nia)).json).toMatchObject({
      status: 'open',
      sandbox: { generation: 1 },
    })
    expect(await make(max, once)).toBe(id)
  })

  test('of a session without a maker is for its key and for admins', async () => {
    const { secret: first, memberId } = await makeKey({ owner: 'Ole', scopes: ['write'] })
    const second = await write('Ole')
    const id = await make(first)
    const sql = app.databaseOf(id)
    expect(sql.all('select member_id as id from session')).toEqual([{ id: memberId }])
    // As release 0.1.0 has stored it.
    sql.run('update session set member_id = null')
    app.restart(id)
    expect(outcome(await remove(id, second))).toEqual([403, 'forbidden'])
    expect((await remove(id, first)).status).toBe(204)
  })
})
