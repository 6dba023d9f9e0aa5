import type { Sql } from '../ports.ts'

const watched = ['session', 'commands', 'deadlines', 'outbox', 'calls', 'turns', 'runs'] as const
export type Watched = (typeof watched)[number]

const pattern = new RegExp(`\\b(?:update|into|delete from) (${watched.join('|')})\\b`)
/** Statements are written down in the code, so there are not many; those with lists of any length are not kept. */
const maxKnown = 1000

/** Reads off each statement what it writes, so that nobody need look again at what has not changed. */
export class Writes {
  readonly sql: Sql
  readonly #written: (table: Watched) => void
  readonly #known = new Map<string, Watched | null>()

  constructor(sql: Sql, written: (table: Watched) => void) {
    this.#written = written
    this.sql = {
      run: (statement, ...values) => {
        this.#look(statement)
        sql.run(statement, ...values)
      },
      all: (statement, ...values) => {
        this.#look(statement)
        return sql.all(statement, ...values)
      },
      transaction: (work) => sql.transaction(work),
    }
  }

  #look(statement: string): void {
    let table = this.#known.get(statement)
    if (table === undefined) {
      table = (pattern.exec(statement)?.[1] as Watched | undefined) ?? null
      if (this.#known.size < maxKnown) this.#known.set(statement, table)
    }
    if (table !== null) this.#written(table)
  }
}
