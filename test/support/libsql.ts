import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll } from 'vitest'
import { applyMigrations } from '../../local/migrations.ts'
import { type Sqld, startSqld } from '../../local/sqld.ts'
import { createDb } from '../../src/adapters/libsql.ts'
import type { Db } from '../../src/core/ports.ts'

/** A real libSQL server with our schema, for one test file. */
export function useLibsql(): { server: () => Sqld; db: () => Db } {
  let stateDir: string
  let server: Sqld
  beforeAll(async () => {
    stateDir = mkdtempSync(join(tmpdir(), 'gantry-test-'))
    server = await startSqld({ stateDir })
    await applyMigrations(server.url, server.token)
  }, 30_000)
  afterAll(async () => {
    await server?.stop()
    rmSync(stateDir, { recursive: true, force: true })
  })
  return {
    server: () => server,
    db: () => createDb({ url: server.url, token: server.token, requestTimeoutMs: 2000 }),
  }
}
