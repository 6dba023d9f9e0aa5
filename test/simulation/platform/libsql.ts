import { readdirSync, readFileSync } from 'node:fs'
import { DatabaseSync, type StatementSync } from 'node:sqlite'
import { AppError } from '../../../src/contract/error.ts'
import type { Db, DbStatement, DbValue } from '../../../src/core/ports.ts'
import type { Network } from './network.ts'
import { Process } from './process.ts'

const folder = new URL('../../../migrations/', import.meta.url)

/** One for all worlds of a process, each of which begins with empty tables: migrating takes longer than a story. */
class Tables {
  readonly #db = new DatabaseSync(':memory:')
  readonly #prepared = new Map<string, StatementSync>()

  constructor() {
    for (const file of readdirSync(folder).toSorted())
      this.#db.exec(readFileSync(new URL(file, folder), 'utf8'))
    this.#db.exec('savepoint world')
  }

  empty(): void {
    this.#db.exec('rollback to world')
  }

  all<T>(statement: string, values: DbValue[]): T[] {
    const known = this.#prepared.get(statement) ?? this.#db.prepare(statement)
    this.#prepared.set(statement, known)
    return known.all(...values).map((row) => ({ ...row })) as T[]
  }

  batch(statements: DbStatement[]): void {
    this.#db.exec('savepoint batch')
    try {
      for (const { sql, values } of statements) this.all(sql, values)
      this.#db.exec('release batch')
    } catch (error) {
      this.#db.exec('rollback to batch; release batch')
      throw error
    }
  }
}

let tables: Tables | undefined

const away = (what: string) => new AppError('storage_unavailable', `libSQL is away: ${what}`)

/** The real schema and the real statements in memory; requests travel, and it may be away. */
export class Libsql {
  isAway = false
  readonly #process = new Process('libsql')
  readonly #tables: Tables
  readonly #network: Network

  constructor(network: Network) {
    this.#network = network
    this.#tables = tables ??= new Tables()
    this.#tables.empty()
  }

  /** For whoever looks from outside, at once. */
  rows<T>(statement: string, ...values: DbValue[]): T[] {
    return this.#tables.all<T>(statement, values)
  }

  readonly db: Db = {
    all: <T extends object>(statement: string, ...values: DbValue[]) =>
      this.#ask('libsql.all', () => this.#tables.all<T>(statement, values)),
    batch: (statements) => this.#ask('libsql.batch', () => this.#tables.batch(statements)),
  }

  #ask<T>(what: string, work: () => T): Promise<T> {
    const answer = () => {
      if (this.isAway) throw away('it does not answer')
      return work()
    }
    return this.#network.call(what, () => this.#process, answer, away)
  }
}
