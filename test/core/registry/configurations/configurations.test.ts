import { beforeAll, expect, test } from 'vitest'
import { createWebCrypto } from '../../../../src/adapters/web-crypto.ts'
import { ConfigurationCreate } from '../../../../src/contract/configuration.ts'
import type { EnvFile } from '../../../../src/contract/tools/save-env-files.ts'
import {
  type ConfigurationKey,
  insertConfiguration,
  removeConfiguration,
  loadConfiguration,
  saveEnvFiles,
  saveServiceCommands,
  setBaseSnapshot,
  changeConfiguration,
} from '../../../../src/core/registry/configurations/configurations.ts'
import { createOrganisation } from '../../../../src/core/registry/organisations.ts'
import type { Db } from '../../../../src/core/ports.ts'
import { setSecret } from '../../../../src/core/registry/configurations/secrets.ts'
import { secretKey } from '../../../support/keys.ts'
import { useLibsql } from '../../../support/libsql.ts'
import { openedSecrets, openedToken } from '../../../support/opened.ts'

const libsql = useLibsql()
const crypto = createWebCrypto([secretKey('s1')])
let db: Db
let organisationId: string
let made = 0

beforeAll(async () => {
  db = libsql.db()
  organisationId = await createOrganisation(db, crypto, 1, 'test')
})

const make = async (input: object = {}, organisation = organisationId) => {
  const parsed = ConfigurationCreate.parse({ name: `n${made++}`, ...input })
  const { id } = await insertConfiguration(db, crypto, 1, organisation, parsed)
  return { organisationId: organisation, configurationId: id } satisfies ConfigurationKey
}

test('[CONF1] of many who take one name at once, one gets it', async () => {
  const results = await Promise.allSettled(
    Array.from({ length: 8 }, () => make({ name: 'contested' })),
  )
  expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  for (const result of results) {
    if (result.status === 'rejected') expect(result.reason).toMatchObject({ code: 'wrong_state' })
  }
})

test('[CONF1] renaming two to one name at once gives it to one', async () => {
  const keys = [await make(), await make()]
  const results = await Promise.allSettled(
    keys.map((key) => changeConfiguration(db, crypto, 2, key, { name: 'wanted' })),
  )
  expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
})

test('[CONF7] what a setup session saves may be saved again', async () => {
  const key = await make()
  const commands = [{ name: 'web', command: 'npm start', workspacePath: '.' }]
  const files: EnvFile[] = [
    {
      workspacePath: '.',
      path: '.env',
      format: 'dotenv',
      mode: 'secret',
      keys: [{ key: 'A', required: true }],
    },
  ]
  const snapshotId = `snp_${'0'.repeat(20)}`
  for (const now of [5, 6]) {
    await saveServiceCommands(db, now, { ...key, commands })
    await saveEnvFiles(db, now, { ...key, files })
    await setBaseSnapshot(db, now, { ...key, snapshotId })
  }
  expect(await loadConfiguration(db, key)).toMatchObject({
    serviceCommands: commands,
    envFiles: files,
    baseSnapshotId: snapshotId,
    createdAt: 1,
    updatedAt: 6,
  })
  await saveServiceCommands(db, 7, { ...key, commands: [] })
  expect((await loadConfiguration(db, key)).serviceCommands).toEqual([])
})

test('[CONF7] a value that rides along in an env file specification is not stored', async () => {
  const key = await make()
  const file = {
    workspacePath: '.',
    path: '.env',
    format: 'dotenv',
    mode: 'secret',
    value: 'canary-1',
    keys: [{ key: 'A', required: true, value: 'canary-2' }],
  } as const
  await saveEnvFiles(db, 2, { ...key, files: [file as unknown as EnvFile] })
  const rows = await db.all('select * from configurations')
  expect(JSON.stringify(rows)).toContain('"A"'.replaceAll('"', '\\"'))
  expect(JSON.stringify(rows)).not.toContain('canary')
})

test('[CONF2] nothing can be saved into, read from or deleted of another organisation', async () => {
  const key = await make({ repository: { url: 'https://host/x', token: 'theirs' } })
  const foreign = { ...key, organisationId: await createOrganisation(db, crypto, 1, 'other') }
  const before = await loadConfiguration(db, key)
  const acts: (() => Promise<unknown>)[] = [
    () => loadConfiguration(db, foreign),
    () => openedToken(db, crypto, foreign),
    () => changeConfiguration(db, crypto, 2, foreign, { name: 'stolen' }),
    () => saveServiceCommands(db, 2, { ...foreign, commands: [] }),
    () => saveEnvFiles(db, 2, { ...foreign, files: [] }),
    () => setBaseSnapshot(db, 2, { ...foreign, snapshotId: null }),
    () => removeConfiguration(db, foreign),
    () => setSecret(db, crypto, 2, foreign, { name: 'A', value: 'v' }),
  ]
  for (const act of acts) await expect(act()).rejects.toMatchObject({ code: 'not_found' })
  expect(await loadConfiguration(db, key)).toEqual(before)
})

test('[CONF5] the repository’s token is sealed, and stays only with its URL', async () => {
  const repository = { url: 'https://host/a', token: 'first-token' }
  const key = await make({ repository })
  const token = () => openedToken(db, crypto, key)
  const change = (next: object | null) =>
    changeConfiguration(db, crypto, 2, key, { repository: next as typeof repository | null })
  expect(JSON.stringify(await db.all('select * from configurations'))).not.toContain('first-token')
  await change({ url: 'https://host/a', ref: 'main' })
  expect(await token()).toBe('first-token')
  expect((await change({ url: 'https://evil/a' })).repository).toEqual({
    url: 'https://evil/a',
    ref: null,
    hasToken: false,
  })
  await change({ url: 'https://host/a' })
  expect(await token()).toBeNull()
  await change({ url: 'https://host/b', token: 'second' })
  expect(await token()).toBe('second')
  await change({ url: 'https://host/b', token: null })
  expect(await token()).toBeNull()
  await change({ url: 'https://host/b', token: 'third' })
  await change(null)
  expect([(await loadConfiguration(db, key)).repository, await token()]).toEqual([null, null])
})

test('[CONF9] deleting takes its secrets along, and no others', async () => {
  const [gone, kept] = [await make(), await make()]
  const all = { organisationId, configurationId: null }
  for (const owner of [gone, kept, all]) {
    await setSecret(db, crypto, 1, owner, { name: 'A', value: String(owner.configurationId) })
  }
  await removeConfiguration(db, gone)
  const rows = await db.all<{ configuration_id: string }>(
    'select configuration_id from secrets where organisation_id = ? order by 1',
    organisationId,
  )
  expect(rows.map((row) => row.configuration_id)).toEqual(['', kept.configurationId])
  await expect(removeConfiguration(db, gone)).rejects.toMatchObject({ code: 'not_found' })
  expect(await openedSecrets(db, crypto, organisationId, kept.configurationId)).toEqual([
    { name: 'A', value: kept.configurationId },
  ])
})

test('[CONF9] a secret that arrives while its configuration is deleted is not left behind', async () => {
  for (let i = 0; i < 10; i++) {
    const key = await make()
    const sets = ['A', 'B', 'C'].map((name) =>
      setSecret(libsql.db(), crypto, 1, key, { name, value: 'v' }),
    )
    await Promise.allSettled([removeConfiguration(libsql.db(), key), ...sets])
    const rows = await db.all(
      'select 1 from secrets where configuration_id = ?',
      key.configurationId,
    )
    expect(rows).toEqual([])
  }
})
