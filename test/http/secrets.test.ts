import { beforeEach, expect, test } from 'vitest'
import { createWebCrypto } from '../../src/adapters/web-crypto.ts'
import type { Crypto, Db } from '../../src/core/ports.ts'
import { createTestApp, type TestApp } from '../support/app.ts'
import { secretKey } from '../support/keys.ts'
import { useLibsql } from '../support/libsql.ts'
import { openedSecrets } from '../support/opened.ts'

const libsql = useLibsql()
let app: TestApp
let organisationId: string
let key: string
let configurationId: string
let stranger: string
let strangerConfigurationId: string

beforeEach(async () => {
  app = createTestApp({ db: libsql.db })
  organisationId = await app.makeOrganisation()
  key = (await app.makeKey(organisationId, 'admin')).secret
  stranger = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
  const make = async (credential: string) =>
    (await app.call('POST', '/v1/configurations', credential, { name: 'same' })).json.id
  configurationId = await make(key)
  strangerConfigurationId = await make(stranger)
})

const outcome = async (...call: Parameters<TestApp['call']>) => {
  const { status, json } = await app.call(...call)
  return [status, json?.error?.code]
}
const names = async (query: string, credential = key) => {
  const { json } = await app.call('GET', `/v1/secrets${query}`, credential)
  return json.items.map(({ name }: { name: string }) => name)
}

test('[SEC2] secrets are set, listed by name and deleted, per organisation and configuration', async () => {
  const set = await app.call('PUT', '/v1/secrets/B_KEY', key, { value: 'one' })
  const expected = { name: 'B_KEY', configurationId: null, inject: null, createdAt: app.deps.now() }
  expect([set.status, set.json]).toEqual([200, { ...expected, updatedAt: app.deps.now() }])
  app.pass(5)
  const again = await app.call('PUT', '/v1/secrets/B_KEY', key, { value: 'two' })
  expect(again.json).toEqual({ ...expected, updatedAt: app.deps.now() })
  await app.call('PUT', '/v1/secrets/A_KEY', key, { value: 'a' })
  await app.call('PUT', '/v1/secrets/A_KEY', key, { value: 'own', configurationId })
  expect(await names('')).toEqual(['A_KEY', 'B_KEY'])
  expect(await names(`?configurationId=${configurationId}`)).toEqual(['A_KEY'])
  expect((await app.call('GET', '/v1/secrets', key)).json.items[1]).toEqual(again.json)

  expect(await outcome('DELETE', '/v1/secrets/A_KEY', key)).toEqual([204, undefined])
  expect(await outcome('DELETE', '/v1/secrets/A_KEY', key)).toEqual([404, 'not_found'])
  expect(await names(`?configurationId=${configurationId}`)).toEqual(['A_KEY'])
  const own = `/v1/secrets/A_KEY?configurationId=${configurationId}`
  expect(await outcome('DELETE', own, key)).toEqual([204, undefined])
  expect(await names(`?configurationId=${configurationId}`)).toEqual([])
})

test('[SEC1] a name or value that does not fit is refused with the reason', async () => {
  for (const name of ['1A', 'A-B', '%20', '__proto__', 'x'.repeat(201)]) {
    const answer = await app.call('PUT', `/v1/secrets/${name}`, key, { value: 'v' })
    expect([answer.status, answer.json.error.details[0].path]).toEqual([400, 'name'])
  }
  for (const value of ['', 'x'.repeat(8193), '🔑'.repeat(2049), 1, null]) {
    const answer = await app.call('PUT', '/v1/secrets/A', key, { value })
    expect([answer.status, answer.json.error.details[0].path]).toEqual([400, 'value'])
  }
  const most = '🔑'.repeat(2048)
  expect(await outcome('PUT', '/v1/secrets/LARGE', key, { value: most })).toEqual([200, undefined])
  const values = await openedSecrets(libsql.db(), app.deps.crypto, organisationId, null)
  expect(values.find(({ name }) => name === 'LARGE')?.value).toBe(most)
})

test('[SEC4] two organisations with the same names do not see each other’s', async () => {
  const scopes = [
    [key, configurationId],
    [stranger, strangerConfigurationId],
  ] as const
  for (const [credential, id] of scopes) {
    await app.call('PUT', '/v1/secrets/SAME', credential, { value: id })
    await app.call('PUT', '/v1/secrets/SAME_OWN', credential, { value: id, configurationId: id })
  }
  expect(await names('', stranger)).toEqual(['SAME'])
  for (const [credential, , foreign = ''] of [
    [...scopes[0], strangerConfigurationId],
    [...scopes[1], configurationId],
  ]) {
    const body = { value: 'v', configurationId: foreign }
    const query = `?configurationId=${foreign}`
    const refused = [404, 'not_found']
    expect(await outcome('PUT', '/v1/secrets/SAME_OWN', credential, body)).toEqual(refused)
    expect(await outcome('GET', `/v1/secrets${query}`, credential)).toEqual(refused)
    expect(await outcome('DELETE', `/v1/secrets/SAME_OWN${query}`, credential)).toEqual(refused)
  }
  await app.call('DELETE', '/v1/secrets/SAME', stranger)
  expect(await names('')).toContain('SAME')
  const values = await openedSecrets(libsql.db(), app.deps.crypto, organisationId, configurationId)
  expect(values.filter(({ name }) => name.startsWith('SAME'))).toEqual([
    { name: 'SAME', value: configurationId },
    { name: 'SAME_OWN', value: configurationId },
  ])
})

test('[SEC7] only an admin may exchange the seals', async () => {
  const writer = (await app.makeKey(organisationId, 'write')).secret
  expect(await outcome('POST', '/v1/secrets/reseal', writer)).toEqual([403, 'forbidden'])
})

test('[SEC7] with a new first key everything stays readable, also once the old one is dropped', async () => {
  const [oldKey, newKey] = [secretKey('old'), secretKey('new')]
  const test = createTestApp({ db: libsql.db })
  const organisation = await test.makeOrganisation()
  const admin = (await test.makeKey(organisation, 'admin')).secret
  const load = (crypto: Crypto) => openedSecrets(libsql.db(), crypto, organisation, null)
  const written = { name: 'A', value: 'sealed long ago' }

  test.deps.crypto = createWebCrypto([oldKey])
  await test.call('PUT', '/v1/secrets/A', admin, { value: written.value })
  test.deps.crypto = createWebCrypto([newKey, oldKey])
  expect(await load(test.deps.crypto)).toEqual([written])
  await expect(load(createWebCrypto([newKey]))).rejects.toThrow()
  const answer = await test.call('POST', '/v1/secrets/reseal', admin)
  expect([answer.status, answer.json]).toEqual([200, { resealed: 1, current: 0, unreadable: 0 }])
  expect(await load(createWebCrypto([newKey]))).toEqual([written])
})

test('[SEC3] a value is in no answer, no error and no log line', async () => {
  const canary = 'canary-0b7c41'
  let fault: Error | null = null
  const faulty = (): Db => {
    const db = libsql.db()
    return {
      all: (sql, ...values) =>
        fault && sql.includes('into secrets')
          ? Promise.reject(Object.assign(fault, { values }))
          : db.all(sql, ...values),
      batch: (statements) => db.batch(statements),
    }
  }
  const test = createTestApp({ db: faulty })
  const organisation = await test.makeOrganisation()
  const admin = (await test.makeKey(organisation, 'admin')).secret
  const put = (body: unknown, path = '/v1/secrets/CANARY') => test.call('PUT', path, admin, body)
  const answers = [
    await put({ value: canary }),
    await put({ value: canary }),
    await put({ value: [canary] }),
    await put({ value: canary, configurationId: canary }),
    await put({ value: canary, configurationId: `cfg_${'0'.repeat(20)}` }),
    await put({ value: `${canary}\0` }),
    await put({ value: canary.repeat(6000) }),
    await put({ value: canary }, '/v1/secrets/not-a-name'),
    await put(`{"value":"${canary}"`),
    await test.call('GET', '/v1/secrets', admin),
    await test.call('POST', '/v1/secrets/reseal', admin),
  ]
  fault = new Error('no such column')
  answers.push(await put({ value: canary }))
  fault = null
  test.deps.crypto = createWebCrypto([])
  answers.push(await put({ value: canary }))
  expect(answers.map(({ status }) => status).join(' ')).toBe(
    '200 200 400 400 404 400 400 400 400 200 200 500 500',
  )
  await test.settle()
  expect(test.logs.length).toBeGreaterThan(2)
  const seen = JSON.stringify([answers.map(({ text }) => text), test.logs])
  expect(seen).toContain('CANARY')
  for (const text of [canary, btoa(canary).slice(0, 16), encodeURIComponent(canary)])
    expect(seen).not.toContain(text)
})
