import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { applyMigrations } from '../../local/migrations.ts'
import { startSqld } from '../../local/sqld.ts'
import { loadSecrets } from '../../local/state.ts'

declare module 'vitest' {
  interface ProvidedContext {
    bindings: Record<string, string>
  }
}

/** A libSQL server for the tests inside workerd, and the environment that a host would give. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const stateDir = mkdtempSync(join(tmpdir(), 'gantry-workers-'))
  const sqld = await startSqld({ stateDir })
  await applyMigrations(sqld.url, sqld.token)
  const secrets = loadSecrets(stateDir)
  project.provide('bindings', {
    LIBSQL_URL: sqld.url,
    LIBSQL_TOKEN: sqld.token,
    GANTRY_ID_SECRET: secrets.idSecret,
    GANTRY_TOKEN_KEYS: secrets.tokenKeys,
    GANTRY_SEAL_KEYS: secrets.sealKeys,
    GANTRY_PUBLIC_URL: 'http://gantry.test',
    // Nobody listens there: a sandbox that is asked for cannot be had.
    SANDBOX_HOST_URL: 'http://127.0.0.1:9',
    SANDBOX_HOST_SECRET: 'none',
    SANDBOX_ROOT: '/nowhere',
    GANTRY_DEFAULT_SANDBOX: 'none',
  })
  return async () => {
    await sqld.stop()
    rmSync(stateDir, { recursive: true, force: true })
  }
}
