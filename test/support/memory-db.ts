import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { root } from '../../local/binaries.ts'
import { loadMigrations } from '../../local/database/migrations.ts'
import type { Db, DbValue } from '../../src/core/ports.ts'

/** The shared database in this process, with our schema, or what it was before a migration. For tests that ask it often. */
export function memoryDb(before = '9999'): Db & { migrate(): void } {
  const db = new DatabaseSync(':memory:')
  db.exec('pragma foreign_keys = off')
  const migrations = loadMigrations(join(root, 'migrations'))
  for (const { name, sql } of migrations) if (name < before) db.exec(sql)
  return {
    async all<T extends object>(statement: string, ...values: DbValue[]) {
      const rows = db.prepare(statement).all(...values)
      return rows.map((row) => ({ ...row })) as T[]
    },
    async batch(statements) {
      db.exec('begin')
      try {
        for (const { sql, values } of statements) db.prepare(sql).run(...values)
        db.exec('commit')
      } catch (error) {
        db.exec('rollback')
        throw error
      }
    },
    migrate() {
      for (const { name, sql } of migrations) if (name >= before) db.exec(sql)
    },
  }
}
