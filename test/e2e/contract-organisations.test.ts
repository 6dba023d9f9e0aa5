import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { randomText } from '../../local/state/secrets.ts'
import { idAlphabet } from '../../src/contract/ids.ts'
import {
  api,
  createConfiguration,
  dbOf,
  loadConfiguration,
  outboxEmpty,
  outputsOf,
  setSecret,
  snapshotFolder,
  tool,
} from './contract-kit.ts'
import { Box, until, useRealStack, write } from './support.ts'

const stack = useRealStack('workerd')

/** A second organisation beside the one that the stack has made, with a key of its own. */
async function addOrganisation() {
  const organisationId = `org_${randomText(20, idAlphabet)}`
  const adminKey = `gk_${randomText(32, idAlphabet)}`
  const hash = createHash('sha256').update(adminKey).digest('hex')
  await dbOf(stack()).batch([
    {
      sql: 'insert into organisations (id, name, created_at) values (?, ?, ?)',
      values: [organisationId, 'Other', Date.now()],
    },
    {
      sql: `insert into api_keys (id, organisation_id, name, owner, scopes, secret_hash, created_at)
            values (?, ?, ?, ?, ?, ?, ?)`,
      values: [`key_${randomText(20, idAlphabet)}`, organisationId, 'a', 'b', '["admin"]', hash, 1],
    },
  ])
  return { organisationId, url: stack().url, adminKey, sandboxSite: stack().sandboxSite }
}

test('[CONF2] [CONF8] [SEC4] [SNAP6] two organisations with the same names see nothing of each other: configurations, secrets, snapshots', async () => {
  const [ours, theirs] = [stack(), await addOrganisation()]
  const input = { name: 'web', project: 'shop' }
  const mine = await createConfiguration(ours, input)
  const other = await createConfiguration(theirs, input)
  expect(other.id).not.toBe(mine.id)
  await setSecret(ours, 'SHARED_NAME', 'value of ours', mine.id)
  await setSecret(ours, 'EVERYWHERE', 'everywhere of ours')
  await setSecret(theirs, 'SHARED_NAME', 'value of theirs', other.id)

  const setup = await Box.open(ours, { configurationId: mine.id, sessionType: 'setup' })
  const outputs = await outputsOf(setup, [
    write('ours.txt', 'made by ours\n'),
    tool('save_snapshot', { message: 'ours' }),
  ])
  const snapshotId = /snp_\w+/.exec(outputs['save_snapshot'] ?? '')?.[0] as string
  await outboxEmpty(setup)
  expect((await loadConfiguration(ours, mine.id)).baseSnapshotId).toBe(snapshotId)

  // What is the other's is not there, whatever is asked of it.
  const path = `/v1/configurations/${mine.id}`
  const asked = [
    await api(theirs, 'GET', path),
    await api(theirs, 'PATCH', path, { name: 'taken' }),
    await api(theirs, 'PATCH', `/v1/configurations/${other.id}`, { baseSnapshotId: snapshotId }),
    await api(theirs, 'DELETE', path),
    await api(theirs, 'PUT', '/v1/secrets/MORE', {
      value: 'v'.repeat(9),
      configurationId: mine.id,
    }),
    await api(theirs, 'GET', `/v1/secrets?configurationId=${mine.id}`),
    await api(theirs, 'DELETE', `/v1/secrets/SHARED_NAME?configurationId=${mine.id}`),
    await api(theirs, 'POST', '/v1/sessions', { configurationId: mine.id }),
    await api(theirs, 'GET', `/v1/sessions/${setup.id}/env-requests`),
    await api(theirs, 'POST', `/v1/sessions/${setup.id}/env`, {
      values: [{ key: 'A', value: 'abcdefgh' }],
    }),
  ]
  expect(asked.map(({ status }) => status)).toEqual(asked.map(() => 404))
  const list = await api(theirs, 'GET', '/v1/configurations')
  expect(list.json).toMatchObject({ items: [{ id: other.id, name: 'web', baseSnapshotId: null }] })
  const secrets = await api(theirs, 'GET', `/v1/secrets?configurationId=${other.id}`)
  expect(secrets.json).toMatchObject({ items: [{ name: 'SHARED_NAME' }] })
  expect((await api(theirs, 'GET', '/v1/secrets')).json).toEqual({ items: [] })
  expect(await loadConfiguration(ours, mine.id)).toMatchObject({ name: 'web', project: 'shop' })

  const box = await Box.open(theirs, { configurationId: other.id })
  expect(JSON.parse(readFileSync(box.folder('tmp/.proliferate_env.json'), 'utf8'))).toEqual({
    SHARED_NAME: 'value of theirs',
  })
  expect(existsSync(box.folder('workspace/ours.txt'))).toBe(false)
  expect(JSON.parse(readFileSync(setup.folder('tmp/.proliferate_env.json'), 'utf8'))).toEqual({
    SHARED_NAME: 'value of ours',
    EVERYWHERE: 'everywhere of ours',
  })

  // Even if the row said so, the sandbox host gives a snapshot to its own organisation only.
  await dbOf(stack()).batch([
    {
      sql: 'update configurations set base_snapshot_id = ? where id = ?',
      values: [snapshotId, other.id],
    },
  ])
  const forged = await Box.create(theirs, { configurationId: other.id })
  const { sandbox } = await until('the forged one starts without it', 60_000, async () => {
    const view = await forged.view()
    return view.sandbox.state === 'ready' && view
  })
  expect(sandbox.generation).toBeGreaterThan(1)
  forged.generation = sandbox.generation
  expect(existsSync(forged.folder('workspace'))).toBe(true)
  expect(existsSync(forged.folder('workspace/ours.txt'))).toBe(false)
  expect(JSON.stringify(await forged.events())).toContain(snapshotId)
  await forged.post('/close')
  expect(existsSync(join(snapshotFolder(stack()), snapshotId))).toBe(true)
  expect(existsSync(snapshotFolder(stack(), theirs.organisationId))).toBe(false)
})
