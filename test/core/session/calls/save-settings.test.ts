import { beforeAll, expect, test } from 'vitest'
import { createWebCrypto } from '../../../../src/adapters/web-crypto.ts'
import { ConfigurationCreate } from '../../../../src/contract/configuration.ts'
import {
  insertConfiguration,
  loadConfiguration,
} from '../../../../src/core/registry/configurations/configurations.ts'
import { createOrganisation } from '../../../../src/core/registry/organisations.ts'
import {
  saveEnvFiles,
  saveServiceCommands,
} from '../../../../src/core/session/calls/tools/save-settings.ts'
import type { CallContext } from '../../../../src/core/session/calls/tools/tool.ts'
import { secretKey } from '../../../support/keys.ts'
import { useLibsql } from '../../../support/libsql.ts'

const { db } = useLibsql()
const crypto = createWebCrypto([secretKey('s')])
let organisationId: string
let configurationId: string
beforeAll(async () => {
  organisationId = await createOrganisation(db(), crypto, 1, 'settings')
  const input = ConfigurationCreate.parse({ name: 'one' })
  configurationId = (await insertConfiguration(db(), crypto, 1, organisationId, input)).id
})
const context = (more: Partial<CallContext> = {}) =>
  ({ organisationId, configurationId, db, now: () => 5, ...more }) as CallContext
const commands = ['web', 'jobs'].map((name) => ({ name, command: `npm run ${name}` }))
const files = [
  { path: '.env', format: 'dotenv', mode: 'secret', keys: [{ key: 'A', required: true }] },
]

test('[TOOL6] what a setup session finds out is stored with its configuration, and may be stored again', async () => {
  for (const _ of ['once', 'twice']) {
    expect(await saveServiceCommands.run({ commands }, context())).toEqual({
      success: true,
      result: 'Saved 2 service commands: web, jobs',
      data: { count: 2 },
    })
    expect(await saveEnvFiles.run({ files }, context())).toEqual({
      success: true,
      result: 'Saved 1 env files: .env',
      data: { count: 1 },
    })
  }
  const stored = await loadConfiguration(db(), { organisationId, configurationId })
  expect(stored).toMatchObject({ serviceCommands: commands, envFiles: files })
  expect([saveServiceCommands.repeatable, saveEnvFiles.repeatable]).toEqual([true, true])
})

test('[TOOL6] a session without a configuration has nowhere to store it', async () => {
  const nowhere = context({ configurationId: null })
  for (const answer of [
    await saveServiceCommands.run({ commands }, nowhere),
    await saveEnvFiles.run({ files }, nowhere),
  ])
    expect(answer).toEqual({
      success: false,
      result: 'This session has no configuration to save to',
    })
})
