import type { Sql, SqlValue } from '../src/core/ports.ts'

/** A Durable Object's own SQLite as the `Sql` port. */
export function durableSqlite(storage: DurableObjectStorage): Sql {
  return {
    run(statement, ...values) {
      storage.sql.exec(statement, ...values)
    },
    all<T extends object>(statement: string, ...values: SqlValue[]) {
      return storage.sql.exec(statement, ...values).toArray() as unknown as T[]
    },
    transaction: (work) => storage.transactionSync(work),
  }
}
