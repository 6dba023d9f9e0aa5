// The `Sql` port over one SQLite file, for Node and Deno. A commit is on the disk before it returns. The file is made
// by the first write: reading what was never created finds an empty database and leaves nothing behind. A full disk is
// the error `storage_unavailable`, which may be tried again. Actors and the wake index each have one.

import { existsSync, mkdirSync, rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync, type StatementSync } from 'node:sqlite'
import { AppError } from '../../contract/error.ts'
import type { Sql, SqlValue } from '../../core/ports.ts'

const maxCachedStatements = 256

export class SqlFile implements Sql {
  readonly #path: string
  readonly #beforeFirstWrite: () => void
  readonly #statements = new Map<string, StatementSync>()
  #db: DatabaseSync | null = null
  #closed = false
  #written = false
  #depth = 0

  /** `beforeFirstWrite` runs before this instance changes or makes the file. */
  constructor(path: string, beforeFirstWrite: () => void = () => {}) {
    this.#path = path
    this.#beforeFirstWrite = beforeFirstWrite
  }

  exists(): boolean {
    return this.#db !== null || (!this.#closed && existsSync(this.#path))
  }

  run(statement: string, ...values: SqlValue[]): void {
    this.#willWrite()
    this.#guarded(() => this.#prepare(statement).run(...values))
  }

  all<T extends object>(statement: string, ...values: SqlValue[]): T[] {
    if (!this.#closed && !this.exists()) return readEmpty(statement, values) as T[]
    return this.#guarded(() => this.#prepare(statement).all(...values) as T[])
  }

  transaction<T>(work: () => T): T {
    this.#willWrite()
    const [begin, commit, rollback] = this.#depth === 0 ? outermost : nested(this.#depth)
    this.#guarded(() => this.#prepare(begin).run())
    this.#depth += 1
    try {
      const outcome = work()
      this.#guarded(() => this.#prepare(commit).run())
      return outcome
    } catch (error) {
      this.#undo(rollback)
      throw error
    } finally {
      this.#depth -= 1
    }
  }

  /** For good: what still holds this may write no more. */
  close(): void {
    this.#release()
    this.#closed = true
  }

  /** Back to what was never created. */
  erase(): void {
    this.#release()
    for (const suffix of ['', '-wal', '-shm', '-journal'])
      rmSync(`${this.#path}${suffix}`, { force: true })
  }

  #guarded<T>(work: () => T): T {
    try {
      return work()
    } catch (error) {
      throw isDiskFailure(error) ? diskFull() : error
    }
  }

  #willWrite(): void {
    if (this.#written || this.#closed) return
    this.#beforeFirstWrite()
    this.#written = true
  }

  #release(): void {
    this.#written = false
    this.#statements.clear()
    this.#db?.close()
    this.#db = null
  }

  // SQLite has already rolled back by itself after some errors, such as a full disk.
  #undo(statements: readonly string[]): void {
    if (this.#db?.isTransaction) for (const statement of statements) this.#prepare(statement).run()
  }

  #prepare(text: string): StatementSync {
    const known = this.#statements.get(text)
    if (known) return known
    if (this.#statements.size >= maxCachedStatements) this.#statements.clear()
    const statement = this.#open().prepare(text)
    this.#statements.set(text, statement)
    return statement
  }

  #open(): DatabaseSync {
    if (this.#db) return this.#db
    if (this.#closed) throw new Error(`Cannot use "${this.#path}": it was closed`)
    mkdirSync(dirname(this.#path), { recursive: true, mode: 0o700 })
    const db = new DatabaseSync(this.#path)
    try {
      // Exclusive: one process per data directory, so no lock is taken per statement and no -shm file is needed.
      // Full: a commit is on the disk before anything is answered.
      db.exec(`
        pragma busy_timeout = 2000;
        pragma locking_mode = exclusive;
        pragma journal_mode = wal;
        pragma synchronous = full;
        pragma foreign_keys = on;
      `)
    } catch (error) {
      db.close()
      throw error
    }
    this.#db = db
    return db
  }
}

/** Not every way to a statement gives SQLite's number, so its words count. Folders fail with the system's. */
function isDiskFailure(error: unknown): boolean {
  const words =
    /database or disk is full|disk I\/O error|unable to open database file|ENOSPC|EDQUOT|EFBIG/
  return error instanceof Error && words.test(error.message)
}

function diskFull(): AppError {
  return new AppError(
    'storage_unavailable',
    'The disk of the control plane is full or cannot be written: send the same request again once there is space',
  )
}

const outermost = ['begin immediate', 'commit', ['rollback']] as const
const nested = (depth: number) =>
  [
    `savepoint s${depth}`,
    `release s${depth}`,
    [`rollback to s${depth}`, `release s${depth}`],
  ] as const

function readEmpty(statement: string, values: SqlValue[]): unknown[] {
  const db = new DatabaseSync(':memory:')
  try {
    return db.prepare(statement).all(...values)
  } finally {
    db.close()
  }
}
