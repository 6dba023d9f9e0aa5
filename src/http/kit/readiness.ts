import { errorCodeOf } from '../../contract/error.ts'
import type { CheckResult } from '../../contract/provider.ts'
import type { Readiness } from '../../contract/status.ts'
import { breakingSuffix, schemaVersion, version } from '../../contract/version.ts'
import type { Db } from '../../core/ports.ts'
import type { Problem } from '../../config.ts'
import type { AppDeps } from './deps.ts'

/** Nobody needs a key to ask, so asking often must not cost the database anything. */
const rememberMs = 5000

const migrateHint = 'Run "npm run admin -- migrate" with LIBSQL_URL and LIBSQL_TOKEN'

export function createReadiness(deps: Pick<AppDeps, 'db' | 'now'>): () => Promise<Readiness> {
  // The answer, not the promise of one: in workerd a request must not wait for what another one does.
  let last: { at: number; answer: Readiness } | undefined
  return async () => {
    const at = deps.now()
    if (last !== undefined && at - last.at < rememberMs) return last.answer
    const checks = [...configurationReadiness([]), ...(await databaseReadiness(deps.db()))]
    const answer = { ready: checks.every(({ ok }) => ok), version, checks }
    last = { at, answer }
    return answer
  }
}

/** One for each problem. */
export function configurationReadiness(problems: readonly Problem[]): CheckResult[] {
  const name = 'configuration'
  if (problems.length === 0)
    return [{ name, ok: true, message: 'Every variable that is needed is set', hint: null }]
  return problems.map((each) => ({
    name,
    ok: false,
    message: `${each.name}: ${each.problem}`,
    hint: 'Set it as docs/configuration.md says',
  }))
}

/** Whether libSQL takes a write, and has the tables that this release needs. */
export async function databaseReadiness(db: Db): Promise<CheckResult[]> {
  const libsql = await checkWrite(db)
  return libsql.ok ? [libsql, await checkSchema(db)] : [libsql]
}

/** A locked server still answers reads: only a write tells. */
async function checkWrite(db: Db): Promise<CheckResult> {
  const name = 'libSQL'
  try {
    await db.batch([
      {
        sql: 'create table if not exists _health (id integer primary key, at integer not null)',
        values: [],
      },
      { sql: 'insert or replace into _health (id, at) values (1, unixepoch())', values: [] },
    ])
    return { name, ok: true, message: 'It can be reached and takes a write', hint: null }
  } catch (error) {
    return { name, ok: false, ...whyNot(error) }
  }
}

async function checkSchema(db: Db): Promise<CheckResult> {
  const name = 'schema'
  const wanted = `this release needs ${schemaVersion}`
  const missing = { name, ok: false, hint: migrateHint }
  try {
    const applied = await appliedMigrations(db)
    const newest = applied.at(-1)
    if (newest === undefined) return { ...missing, message: `There is none: ${wanted}` }
    if (!applied.includes(schemaVersion))
      return { ...missing, message: `It stands at ${newest}: ${wanted}` }
    const breaking = applied.find((each) => each > schemaVersion && each.endsWith(breakingSuffix))
    if (breaking !== undefined)
      return {
        name,
        ok: false,
        message: `A later release has made it unusable for this one: ${breaking}`,
        hint: 'Deploy that release or a newer one',
      }
    return { name, ok: true, message: `It stands at ${newest}`, hint: null }
  } catch (error) {
    return { name, ok: false, ...whyNot(error) }
  }
}

async function appliedMigrations(db: Db): Promise<string[]> {
  const tables = await db.all("select 1 from sqlite_master where name = '_migrations'")
  if (tables.length === 0) return []
  const rows = await db.all<{ name: string }>('select name from _migrations order by name')
  return rows.map(({ name }) => name)
}

const whyNot = (error: unknown) =>
  readinessTrouble(error) ?? { message: 'It refuses a statement', hint: migrateHint }

/**
 * Why libSQL cannot be used, and which variable to look at. Null: it can, and the fault is another one. Never the
 * error's own text: it may quote an address with a token in it.
 */
export function readinessTrouble(error: unknown): { message: string; hint: string } | null {
  if (errorCodeOf(error) !== 'storage_unavailable') return null
  const { cause } = error as { cause?: { code?: unknown; cause?: { status?: unknown } } }
  const status = cause?.cause?.status
  if (status === 401 || status === 403)
    return {
      message: 'It refuses the token',
      hint: 'Set LIBSQL_TOKEN to a token of this database that may write',
    }
  if (status === 404)
    return { message: 'There is no such database', hint: 'Look at the name in LIBSQL_URL' }
  if (/no such|no column/.test((error as Error).message))
    return { message: 'Its schema is older than this release', hint: migrateHint }
  if (String(cause?.code).startsWith('SQLITE_'))
    return { message: 'It takes no write', hint: 'Look at the disk and the log of its server' }
  return {
    message: 'It cannot be reached',
    hint: 'Look at LIBSQL_URL, and whether its server runs',
  }
}
