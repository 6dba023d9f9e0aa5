import { DatabaseSync } from 'node:sqlite'
import type { Sql, SqlValue } from '../../src/core/ports.ts'

/** One small database in memory. */
export function memorySql(): Sql {
  const db = new DatabaseSync(':memory:')
  let depth = 0
  return {
    run: (statement, ...values) => void db.prepare(statement).run(...values),
    all: <T extends object>(statement: string, ...values: SqlValue[]) =>
      db
        .prepare(statement)
        .all(...values)
        .map((row) => ({ ...row })) as T[],
    transaction: (work) => {
      const name = `s${depth++}`
      db.exec(`savepoint ${name}`)
      try {
        const outcome = work()
        db.exec(`release ${name}`)
        return outcome
      } catch (error) {
        db.exec(`rollback to ${name}; release ${name}`)
        throw error
      } finally {
        depth--
      }
    },
  }
}
