import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Client, createClient } from '@libsql/client/web'
import { root } from './binaries.ts'

export interface Migration {
  name: string
  sql: string
  sha256: string
}
interface Applied {
  name: string
  sha256: string
}

/** Applies what the database does not have yet, in order. Returns the names of what it applied. */
export async function applyMigrations(
  url: string,
  token: string,
  folder = join(root, 'migrations'),
): Promise<string[]> {
  const client = createClient({ url, authToken: token })
  try {
    await client.execute(
      'CREATE TABLE IF NOT EXISTS _migrations (name TEXT PRIMARY KEY, sha256 TEXT NOT NULL, applied_at INTEGER NOT NULL)',
    )
    const { rows } = await client.execute('SELECT name, sha256 FROM _migrations ORDER BY name')
    const pending = decidePending(loadMigrations(folder), rows as unknown as Applied[])
    for (const migration of pending) await applyMigration(client, migration)
    return pending.map(({ name }) => name)
  } finally {
    client.close()
  }
}

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

/** Refuses a history that is not the one on disk: going on would give a schema that nobody has tested. */
export function decidePending(files: Migration[], applied: Applied[]): Migration[] {
  const byName = new Map(files.map((file) => [file.name, file]))
  for (const { name, sha256 } of applied) {
    const file = byName.get(name)
    if (file === undefined) {
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

// As single statements in one transaction: a script sent whole would lose the statements that the server cannot parse.
async function applyMigration(client: Client, { name, sql, sha256 }: Migration): Promise<void> {
  const record = {
    sql: 'INSERT INTO _migrations (name, sha256, applied_at) VALUES (?, ?, ?)',
    args: [name, sha256, Date.now()],
  }
  try {
    await client.batch([...splitStatements(sql), record], 'write')
  } catch (error) {
    throw new Error(`Cannot apply migration "${name}": ${(error as Error).message}`, {
      cause: error,
    })
  }
}

const token =
  /--[^\n]*|\/\*[\s\S]*?\*\/|'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\]|;|[^;'"`[\-/]+|[\s\S]/g

/** Without comments. A trigger's body has semicolons of its own: it ends with END. */
export function splitStatements(sql: string): string[] {
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
