import { beforeAll, expect, test } from 'vitest'
import { createWebCrypto } from '../../../../src/adapters/web-crypto.ts'
import { ConfigurationCreate } from '../../../../src/contract/configuration.ts'
import { SnapshotId } from '../../../../src/contract/ids.ts'
import {
  insertConfiguration,
  loadConfiguration,
} from '../../../../src/core/registry/configurations/configurations.ts'
import { createOrganisation } from '../../../../src/core/registry/organisations.ts'
import { gatewayTools } from '../../../../src/core/session/calls/tools/registry.ts'
import {
  runSaveSnapshot,
  type SnapshotContext,
} from '../../../../src/core/session/calls/tools/save-snapshot.ts'
import { secretKey } from '../../../support/keys.ts'
import { useLibsql } from '../../../support/libsql.ts'
import { MemorySandboxes } from '../../../support/memory-sandboxes.ts'
import { sandboxSpec } from '../../../support/sandbox-spec.ts'

const { db } = useLibsql()
const crypto = createWebCrypto([secretKey('s')])
let organisationId: string
beforeAll(async () => {
  organisationId = await createOrganisation(db(), crypto, 1, 'test')
})
const sessionId = `ses_${'1'.repeat(30)}`
const snapshotId = `snp_${'x'.repeat(20)}`

async function makeConfiguration(name: string): Promise<string> {
  const input = ConfigurationCreate.parse({ name })
  return (await insertConfiguration(db(), crypto, 1, organisationId, input)).id
}

function contextOf(more: Partial<SnapshotContext> = {}) {
  const sandboxes = new MemorySandboxes()
  sandboxes.place(sandboxSpec({ sessionId, organisationId }))
  const stored: object[] = []
  const ordered: string[] = []
  const context: SnapshotContext = {
    sessionId,
    organisationId,
    operationId: `op_${'x'.repeat(20)}`,
    now: () => 1,
    db,
    mode: 'coding',
    configurationId: null,
    generation: 1,
    provider: async () => sandboxes,
    generatedFiles: [],
    knownSecrets: async () => [],
    orderSnapshot: (id) => void ordered.push(id),
    storeSnapshot: (snapshot) => void stored.push(snapshot),
    ...more,
  }
  return { context, sandboxes, stored }
}

test('[SNAP9] a snapshot belongs to the session, and its id to the operation', async () => {
  const { context, sandboxes, stored } = contextOf()
  const result = await runSaveSnapshot({ message: 'Green' }, context)
  expect(result).toEqual({
    success: true,
    result: `Snapshot "${snapshotId}" saved on the session: a new sandbox of it starts from there`,
    data: { snapshotId, target: 'session' },
  })
  expect(await runSaveSnapshot({ message: 'Green' }, context)).toEqual(result)
  expect(SnapshotId.safeParse(snapshotId).success).toBe(true)
  expect(sandboxes.orders).toEqual([`snapshot ${snapshotId}`, `snapshot ${snapshotId}`])
  expect(stored[0]).toEqual({ id: snapshotId, target: 'session', bytes: 0, message: 'Green' })
})

test('[SNAP9] in setup mode it becomes the base of the configuration', async () => {
  const id = await makeConfiguration('one')
  const { context, stored } = contextOf({ mode: 'setup', configurationId: id })
  const result = await runSaveSnapshot({}, context)
  expect(result).toMatchObject({ success: true, data: { snapshotId, target: 'configuration' } })
  expect(result.result).toBe(
    `Snapshot "${snapshotId}" saved on the configuration: later sessions start from it`,
  )
  const key = { organisationId, configurationId: id }
  expect((await loadConfiguration(db(), key)).baseSnapshotId).toBe(snapshotId)
  expect(stored).toMatchObject([{ target: 'configuration', message: '' }])
})

test('[SNAP9] in any other mode the configuration keeps its base', async () => {
  const id = await makeConfiguration('two')
  for (const mode of ['coding', 'automation', 'scratch'] as const) {
    const { context } = contextOf({ mode, configurationId: id })
    expect(await runSaveSnapshot({}, context)).toMatchObject({ data: { target: 'session' } })
  }
  const key = { organisationId, configurationId: id }
  expect((await loadConfiguration(db(), key)).baseSnapshotId).toBeNull()
})

test('[SNAP9] a setup session without a configuration has a snapshot of its own; every tool may run again', async () => {
  const { context } = contextOf({ mode: 'setup' })
  expect(await runSaveSnapshot({}, context)).toMatchObject({ data: { target: 'session' } })
  const fragile = gatewayTools.filter(({ repeatable }) => !repeatable)
  expect(fragile.map(({ definition }) => definition.name)).toEqual([])
})

test('[SNAP9] what the provider refuses is passed on, and nothing is recorded', async () => {
  const { context, sandboxes, stored } = contextOf()
  sandboxes.fails = 1
  await expect(runSaveSnapshot({}, context)).rejects.toThrow('away')
  await expect(
    runSaveSnapshot({}, { ...context, provider: async () => null }),
  ).rejects.toMatchObject({
    code: 'wrong_state',
  })
  expect(stored).toEqual([])
})
