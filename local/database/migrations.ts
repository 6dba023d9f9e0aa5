// Brings a libSQL database to the schema of this checkout. Each migration is one transaction and is recorded with its
// hash; a history that differs from the files is refused. It may be run twice at the same time. `npm start`, `npm run
// libsql`, `npm run admin -- migrate` and tests call it.

import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createLibsql } from '../../src/adapters/libsql.ts'
import { breakingSuffix } from '../../src/contract/version.ts'
import type { Db } from '../../src/core/ports.ts'
import { root } from '../binaries.ts'

interface Migration {
  name: string
  sql: string
  sha256: string
}
interface Applied {
  name: string
  sha256: string
}

/** A large table may take its time. */
const requestTimeoutMs = 300_000

/**
 * Applies what the database does not have yet, in order. Returns the names of what it applied. `onUnknown` gets those that
 * a newer release has added, and that this one lives with.
 */
export async function applyMigrations(
  url: string,
  token: string | null,
  folder = join(root, 'migrations'),
  onUnknown: (names: string[]) => void = () => {},
): Promise<string[]> {
  const db = createLibsql({ url, token, requestTimeoutMs })
  const table =
    'CREATE TABLE IF NOT EXISTS _migrations (name TEXT PRIMARY KEY, sha256 TEXT NOT NULL, applied_at INTEGER NOT NULL)'
  await db.batch([{ sql: table, values: [] }])
  const files = loadMigrations(folder)
  const known = await loadApplied(db)
  const pending = decidePending(files, known)
  const unknown = known.filter(({ name }) => !files.some((file) => file.name === name))
  if (unknown.length > 0) onUnknown(unknown.map(({ name }) => name))
  const applied: string[] = []
  for (const migration of pending)
    if (await applyMigration(db, migration)) applied.push(migration.name)
  return applied
}

const loadApplied = (db: Db): Promise<Applied[]> =>
  db.all<Applied>('SELECT name, sha256 FROM _migrations ORDER BY name')

export function loadMigrations(folder: string): Migration[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith('.sql'))
    .sort()
    .map((name) => {
      if (!/^\d{4}_[a-z0-9_]+\.sql$/.test(name)) {
        throw new Error(
          `Cannot use migration "${name}": its name must be like 0001_what_it_does.sql`,
        )
      }
      const sql = readFileSync(join(folder, name), 'utf8')
      return { name, sql, sha256: createHash('sha256').update(sql).digest('hex') }
    })
}

/**
 * Refuses a history that is not the one on disk: going on would give a schema that nobody has tested. What a newer release
 * has only added is no reason to refuse.
 */
function decidePending(files: Migration[], applied: Applied[]): Migration[] {
  const byName = new Map(files.map((file) => [file.name, file]))
  const newestFile = files.at(-1)?.name ?? ''
  for (const { name, sha256 } of applied) {
    const file = byName.get(name)
    if (file === undefined) {
      if (name > newestFile && !name.endsWith(breakingSuffix)) continue
      throw new Error(
        `Cannot migrate: the database has "${name}", which this checkout lacks, so a newer release made it. Use that release or newer`,
      )
    }
    if (file.sha256 !== sha256) {
      throw new Error(
        `Cannot migrate: "${name}" has changed since it was applied. Restore the file, and put the change into a new migration`,
      )
    }
  }
  const last = applied.at(-1)?.name ?? ''
  const pending = files.filter(({ name }) => !applied.some((row) => row.name === name))
  const early = pending.find(({ name }) => name < last)
  if (early !== undefined) {
    throw new Error(
      `Cannot migrate: "${early.name}" comes before "${last}", which is applied already. Renumber it`,
    )
  }
  return pending
}

/**
 * As single statements in one transaction: a script sent whole would lose the statements that the server cannot parse.
 * False: somebody else applied it meanwhile, or an earlier try of ours whose answer was lost.
 */
async function applyMigration(db: Db, { name, sql, sha256 }: Migration): Promise<boolean> {
  const record = {
    sql: 'INSERT INTO _migrations (name, sha256, applied_at) VALUES (?, ?, ?)',
    values: [name, sha256, Date.now()],
  }
  const statements = splitMigration(sql).map((statement) => ({ sql: statement, values: [] }))
  try {
    await db.batch([...statements, record])
    return true
  } catch (error) {
    const applied = await loadApplied(db).catch(() => [])
    if (applied.some((row) => row.name === name && row.sha256 === sha256)) return false
    const { message } = ((error as Error).cause ?? error) as Error
    throw new Error(`Cannot apply migration "${name}": ${message}`, { cause: error })
  }
}

const token =
  /--[^\n]*|\/\*[\s\S]*?\*\/|'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\]|;|[^;'"`[\-/]+|[\s\S]/g

/** Without comments. A trigger's body has semicolons of its own: it ends with END. */
export function splitMigration(sql: string): string[] {
  const statements: string[] = []
  let current = ''
  for (const [part] of sql.matchAll(token)) {
    if (part.startsWith('--') || part.startsWith('/*')) current += ' '
    else if (part !== ';' || isInsideTrigger(current)) current += part
    else {
      statements.push(current.trim())
      current = ''
    }
  }
  return [...statements, current.trim()].filter((statement) => statement !== '')
}

const isInsideTrigger = (text: string) =>
  /^\s*create\s+(temp(orary)?\s+)?trigger\b/i.test(text) && !/\bend\s*$/i.test(text)
