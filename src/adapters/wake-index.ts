import { join } from 'node:path'
import { migrate } from '../core/migrate.ts'
import { SqlFile } from './node-sqlite.ts'

const ladder = [
  [
    // at 0: awake. Otherwise the time of its next deadline; null: it has none.
    'create table wakes (id text primary key, at integer, linked integer not null) without rowid',
    'create index wakes_by_time on wakes (at)',
  ],
]

/**
 * Which sleeping sessions must be woken, and when. A session is marked awake before its file is first written, and gets
 * its time back when the file is closed: so its deadlines cost nothing here while it works, and after a crash those that
 * are marked awake are the ones to look at. Open for as long as the process lives, it is also the lock of the folder.
 */
export class WakeIndex {
  readonly #sql: SqlFile

  constructor(dataDir: string) {
    this.#sql = new SqlFile(join(dataDir, 'index.sqlite'))
    try {
      migrate(this.#sql, ladder)
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
    this.#putToSleep(id, at, linked)
    this.#sql.run('pragma synchronous = full')
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
