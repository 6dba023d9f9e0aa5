// The wake index: which sleeping actors must be woken, and when. An actor is marked awake before its file is first
// written, and its next deadline is stored when the file is closed. So its deadlines cost nothing here while it works,
// and after a crash those that are still marked awake are looked at. The file is open as long as the process lives, and
// so it is also the lock of the data folder. The waker reads and writes it.

import { join } from 'node:path'
import { climbLadder } from '../../core/actor/ladder.ts'
import { SqlFile } from './node-sqlite.ts'

/** A rung that has landed is never edited. */
export const wakeLadder: readonly (readonly string[])[] = [
  [
    // at 0: awake. Otherwise the time of its next deadline; null: it has none.
    'create table wakes (id text primary key, at integer, linked integer not null) without rowid',
    'create index wakes_by_time on wakes (at)',
  ],
]

export class WakeIndex {
  readonly #sql: SqlFile

  constructor(dataDir: string) {
    this.#sql = new SqlFile(join(dataDir, 'index.sqlite'))
    try {
      climbLadder(this.#sql, wakeLadder)
    } catch (error) {
      this.#sql.close()
      if (!String(error).includes('database is locked')) throw error
      throw new Error(
        `Cannot use data directory "${dataDir}": another process is using it. ` +
          'Stop that process first, or choose another directory',
        { cause: error },
      )
    }
  }

  awake(id: string): void {
    this.#sql.run(
      'insert into wakes (id, at, linked) values (?, 0, 0) on conflict (id) do update set at = 0, linked = 0',
      id,
    )
  }

  /**
   * `linked`: an agent's socket is still open, which a crash would end unseen. Not forced to the disk: if this is lost,
   * the session counts as awake and is looked at.
   */
  asleep(id: string, at: number | null, linked: boolean): void {
    this.#sql.run('pragma synchronous = normal')
    try {
      this.#putToSleep(id, at, linked)
    } finally {
      this.#sql.run('pragma synchronous = full')
    }
  }

  #putToSleep(id: string, at: number | null, linked: boolean): void {
    if (at === null && !linked) this.#sql.run('delete from wakes where id = ?', id)
    else this.#sql.run('update wakes set at = ?, linked = ? where id = ?', at, linked ? 1 : 0, id)
  }

  /** Those that the last process left awake or linked. */
  leftBehind(): string[] {
    return this.#ids('select id from wakes where at = 0 or linked = 1')
  }

  due(now: number, limit: number): string[] {
    return this.#ids(
      'select id from wakes where at > 0 and at <= ? order by at limit ?',
      now,
      limit,
    )
  }

  next(): number | null {
    return (
      this.#sql.all<{ at: number | null }>('select min(at) as at from wakes where at > 0')[0]?.at ??
      null
    )
  }

  close(): void {
    this.#sql.close()
  }

  #ids(statement: string, ...values: number[]): string[] {
    return this.#sql.all<{ id: string }>(statement, ...values).map(({ id }) => id)
  }
}
