import { DatabaseSync, type StatementSync } from 'node:sqlite'
import type { Sql, SqlValue } from '../../src/core/ports.ts'

/** One small database in memory. */
export function memorySql(): Sql {
  const db = new DatabaseSync(':memory:')
  let depth = 0
  const prepared = new Map<string, StatementSync>()
  const prepare = (statement: string) => {
    const known = prepared.get(statement) ?? db.prepare(statement)
    prepared.set(statement, known)
    return known
  }
  return {
    run: (statement, ...values) => void prepare(statement).run(...values),
    all: <T extends object>(statement: string, ...values: SqlValue[]) =>
      prepare(statement)
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
