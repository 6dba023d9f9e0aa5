import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll } from 'vitest'
import { applyMigrations } from '../../local/database/migrations.ts'
import { loadKeys, mintSqldToken, type Sqld, startSqld } from '../../local/database/sqld.ts'
import { createLibsql } from '../../src/adapters/libsql.ts'
import type { Db } from '../../src/core/ports.ts'

interface Libsql {
  server: () => Sqld
  db: () => Db
  /** A token of the server that may not write. */
  readToken: () => string
}

/** A real libSQL server with our schema, for one test file. */
export function useLibsql(): Libsql {
  const libsql = useEmptyLibsql()
  beforeAll(() => applyMigrations(libsql.server().url, libsql.server().token))
  return libsql
}

export function useEmptyLibsql(): Libsql {
  let stateDir: string
  let server: Sqld
  beforeAll(async () => {
    stateDir = mkdtempSync(join(tmpdir(), 'gantry-test-'))
    server = await startSqld({ stateDir })
  }, 240_000)
  afterAll(async () => {
    await server?.stop()
    rmSync(stateDir, { recursive: true, force: true })
  })
  return {
    server: () => server,
    db: () => createLibsql({ url: server.url, token: server.token, requestTimeoutMs: 120_000 }),
    readToken: () => mintSqldToken(loadKeys(stateDir).privateKey, 'ro'),
  }
}
