import { beforeAll, expect, test } from 'vitest'
import { createWebCrypto } from '../../../../src/adapters/web-crypto.ts'
import { ConfigurationCreate } from '../../../../src/contract/configuration.ts'
import {
  maxSealedBytes,
  maxSecrets,
  SecretName,
  SecretValue,
} from '../../../../src/contract/secret.ts'
import { insertConfiguration } from '../../../../src/core/registry/configurations/configurations.ts'
import { createOrganisation } from '../../../../src/core/registry/organisations.ts'
import type { Crypto, Db } from '../../../../src/core/ports.ts'
import { resealSecrets } from '../../../../src/core/registry/reseal.ts'
import {
  deleteSecret,
  listSecretNames,
  type SecretOwner,
  setSecret,
} from '../../../../src/core/registry/configurations/secrets.ts'
import { secretKey } from '../../../support/keys.ts'
import { useLibsql } from '../../../support/libsql.ts'
import { openedSecrets, openedToken } from '../../../support/opened.ts'

const libsql = useLibsql()
const [oldKey, newKey] = [secretKey('old'), secretKey('new')]
const crypto = createWebCrypto([oldKey])
let db: Db

beforeAll(() => {
  db = libsql.db()
})

/** An organisation with one configuration, as owners of secrets. */
async function makeOwners(seal: Crypto = crypto) {
  const organisationId = await createOrganisation(db, seal, 1, 'test')
  const input = ConfigurationCreate.parse({
    name: 'main',
    repository: { url: 'https://host/x', token: 'clone-token' },
  })
  const { id } = await insertConfiguration(db, seal, 1, organisationId, input)
  const whole: SecretOwner = { organisationId, configurationId: null }
  return {
    organisationId,
    configurationId: id,
    whole,
    own: { organisationId, configurationId: id },
  }
}
const set = (owner: SecretOwner, name: string, value: string, now = 1, seal = crypto) =>
  setSecret(db, seal, now, owner, { name, value })

test('[SEC1] a name is that of an environment variable', () => {
  const isName = (name: string) => SecretName.safeParse(name).success
  for (const name of ['A', '_', 'a1_B', 'x'.repeat(200)])
    expect([name, isName(name)]).toEqual([name, true])
  for (const name of ['', '1A', 'A-B', 'A.B', 'A B', 'A\n', 'Ä', '__proto__', 'x'.repeat(201)])
    expect([name, isName(name)]).toEqual([name, false])
})

test('[SEC1] a value has 1 byte to 8 KiB as UTF-8', () => {
  const isValue = (value: string) => SecretValue.safeParse(value).success
  expect([isValue(''), isValue('x'), isValue('a\0'), isValue('\ud800')]).toEqual([
    false,
    true,
    false,
    false,
  ])
  expect([isValue('x'.repeat(8192)), isValue('x'.repeat(8192 + 1))]).toEqual([true, false])
  // Two, three and four bytes each.
  for (const [character, bytes] of [
    ['é', 2],
    ['€', 3],
    ['🔑', 4],
  ] as const) {
    const most = Math.floor(8192 / bytes)
    expect([isValue(character.repeat(most)), isValue(character.repeat(most + 1))]).toEqual([
      true,
      false,
    ])
  }
})

test('[SEC2] setting again replaces the value and says that there was one', async () => {
  const { whole, organisationId } = await makeOwners()
  const first = await set(whole, 'A', 'one', 5)
  const second = await set(whole, 'A', 'two', 9)
  expect([first.existed, second.existed]).toEqual([false, true])
  expect(await listSecretNames(db, whole)).toEqual([
    { name: 'A', configurationId: null, inject: null, createdAt: 5, updatedAt: 9 },
  ])
  expect(await openedSecrets(db, crypto, organisationId, null)).toEqual([
    { name: 'A', value: 'two' },
  ])
  await deleteSecret(db, whole, 'A')
  await expect(deleteSecret(db, whole, 'A')).rejects.toMatchObject({ code: 'not_found' })
  expect(await openedSecrets(db, crypto, organisationId, null)).toEqual([])
})

test('[SEC5] a configuration’s own value hides the organisation’s of the same name', async () => {
  const { whole, own, organisationId, configurationId } = await makeOwners()
  await set(own, 'BOTH', 'own')
  await set(whole, 'BOTH', 'whole')
  await set(whole, 'WHOLE', 'w')
  await set(own, 'OWN', 'o')
  const load = async (id: string | null) =>
    Object.fromEntries(
      (await openedSecrets(db, crypto, organisationId, id)).map(({ name, value }) => [name, value]),
    )
  expect(await load(configurationId)).toEqual({ BOTH: 'own', OWN: 'o', WHOLE: 'w' })
  expect(await load(null)).toEqual({ BOTH: 'whole', WHOLE: 'w' })
  await deleteSecret(db, own, 'BOTH')
  expect(await load(configurationId)).toEqual({ BOTH: 'whole', OWN: 'o', WHOLE: 'w' })
})

test('[SEC4] organisations with the same names have nothing of each other', async () => {
  const [a, b] = [await makeOwners(), await makeOwners()]
  for (const [owners, value] of [
    [a, 'of a'],
    [b, 'of b'],
  ] as const) {
    await set(owners.whole, 'SAME', value)
    await set(owners.own, 'SAME_OWN', value)
  }
  for (const [owners, value] of [
    [a, 'of a'],
    [b, 'of b'],
  ] as const) {
    expect(await openedSecrets(db, crypto, owners.organisationId, owners.configurationId)).toEqual([
      { name: 'SAME', value },
      { name: 'SAME_OWN', value },
    ])
  }
  // Even who names another's configuration gets nothing of it.
  expect(await openedSecrets(db, crypto, a.organisationId, b.configurationId)).toEqual([
    { name: 'SAME', value: 'of a' },
  ])
  await deleteSecret(db, a.whole, 'SAME')
  expect(await listSecretNames(db, b.whole)).toHaveLength(1)
})

test('[SEC6] nothing is stored in clear', async () => {
  const { own } = await makeOwners()
  await set(own, 'CANARY', 'canary-7f3a9')
  const rows = JSON.stringify([
    ...(await db.all('select * from secrets')),
    ...(await db.all('select * from configurations')),
  ])
  expect(rows).toContain('CANARY')
  for (const text of ['canary-7f3a9', btoa('canary-7f3a9').slice(0, 14), 'clone-token'])
    expect(rows).not.toContain(text)
})

test('[SEC7] the seal key can be exchanged without losing a secret', async () => {
  const { whole, own, organisationId, configurationId } = await makeOwners()
  const other = await makeOwners()
  await set(other.whole, 'A', 'other')
  // More than a page.
  for (let i = 0; i < 45; i++) await set(i % 2 ? whole : own, `S${i}`, `value ${i}`)
  const load = async (seal: Crypto) => {
    const values = await openedSecrets(db, seal, organisationId, configurationId)
    return [values.length, values.every(({ name, value }) => value === `value ${name.slice(1)}`)]
  }
  const rotated = createWebCrypto([newKey, oldKey])
  expect(await load(rotated)).toEqual([45, true])
  await set(whole, 'S1', 'value 1', 2, rotated)

  expect(await resealSecrets(db, rotated, organisationId)).toEqual({
    resealed: 45,
    current: 1,
    unreadable: 0,
  })
  expect(await resealSecrets(db, rotated, organisationId)).toEqual({
    resealed: 0,
    current: 46,
    unreadable: 0,
  })
  const later = createWebCrypto([newKey])
  expect(await load(later)).toEqual([45, true])
  const key = { organisationId, configurationId }
  expect(await openedToken(db, later, key)).toBe('clone-token')

  // The other organisation was not touched: its secret and its token still need the old key.
  expect(await resealSecrets(db, later, other.organisationId)).toEqual({
    resealed: 0,
    current: 0,
    unreadable: 2,
  })
  await expect(openedSecrets(db, later, other.organisationId, null)).rejects.toThrow()
  expect(await openedSecrets(db, rotated, other.organisationId, null)).toEqual([
    { name: 'A', value: 'other' },
  ])
})

test('[SEC7] a value that is set while the seals are exchanged stays', async () => {
  const { whole, organisationId } = await makeOwners()
  await set(whole, 'A', 'before')
  const rotated = createWebCrypto([newKey, oldKey])
  const slow: Crypto = {
    ...rotated,
    async unseal(sealed) {
      const text = await rotated.unseal(sealed)
      if (text === 'before') await set(whole, 'A', 'meanwhile', 2, rotated)
      return text
    },
  }
  await resealSecrets(db, slow, organisationId)
  expect(await openedSecrets(db, rotated, organisationId, null)).toEqual([
    { name: 'A', value: 'meanwhile' },
  ])
})

test('[SEC8] a scope has room for so many secrets, whoever comes at the same time', async () => {
  const { whole, own } = await makeOwners()
  const sealed = await crypto.seal('v')
  await db.batch(
    Array.from({ length: maxSecrets - 2 }, (_, i) => ({
      sql: `insert into secrets values (?, '', ?, ?, 1, 1, null)`,
      values: [whole.organisationId, `S${i}`, sealed],
    })),
  )
  const results = await Promise.allSettled(
    ['A', 'B', 'C', 'D'].map((name) =>
      setSecret(libsql.db(), crypto, 1, whole, { name, value: 'v' }),
    ),
  )
  expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(2)
  await expect(set(whole, 'E', 'v')).rejects.toMatchObject({ code: 'wrong_state' })
  // Replacing is no growth, and another scope has its own room.
  expect((await set(whole, 'S0', 'w')).existed).toBe(true)
  expect((await set(own, 'E', 'v')).existed).toBe(false)
})

test('[SEC8] a scope has room for so many bytes', async () => {
  const { whole } = await makeOwners()
  const large = 'x'.repeat(8192)
  const most = Math.floor(maxSealedBytes / (await crypto.seal(large)).length)
  for (let i = 0; i < most; i++) await set(whole, `S${i}`, large)
  await expect(set(whole, 'LAST', large)).rejects.toMatchObject({ code: 'wrong_state' })
  expect((await set(whole, 'S0', large)).existed).toBe(true)
})
