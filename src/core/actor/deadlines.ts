import type { Sql } from '../ports.ts'

/** By the database: what its actor's rooms have work for. Where no actor is, as in a test of rows, nothing is checked. */
const met = new WeakMap<Sql, ReadonlySet<string>>()

/** From here on a deadline of another name is an error at once: found out only when it is due, it would come for ever. */
export function meetDeadlines(sql: Sql, names: ReadonlySet<string>): void {
  met.set(sql, names)
}

/**
 * Named points in time over the one alarm that an object has. A row stays until the work that it stands for has
 * committed, so a crash at any moment only means that the work is done again.
 */
export interface Deadline {
  name: string
  at: number
  attempt: number
  /** The instance that took it before, if it has not been set anew since. */
  runner: string | null
}

export function setDeadline(sql: Sql, name: string, at: number, attempt = 0): void {
  mustBeMet(sql, name)
  sql.run(
    `insert into deadlines (name, at, attempt) values (?, ?, ?)
     on conflict (name) do update set at = excluded.at, attempt = excluded.attempt, runner = null`,
    name,
    at,
    attempt,
  )
}

/** Leaves an earlier one alone: for work that is already promised. */
export function ensureDeadline(sql: Sql, name: string, at: number): void {
  mustBeMet(sql, name)
  sql.run('insert or ignore into deadlines (name, at) values (?, ?)', name, at)
}

/** Makes it earlier, if there is one: what it waited for has come. */
export function hurryDeadline(sql: Sql, name: string, at: number): void {
  sql.run('update deadlines set at = ? where name = ? and at > ?', at, name, at)
}

export function clearDeadline(sql: Sql, name: string): void {
  sql.run('delete from deadlines where name = ?', name)
}

function mustBeMet(sql: Sql, name: string): void {
  if (met.get(sql)?.has(name.split(':', 1)[0] ?? '') === false)
    throw new Error(`Cannot set deadline "${name}": nobody has work for it`)
}

/** Ends the work that was taken. If it was set anew meanwhile, the next time stays. */
export function clearTakenDeadline(sql: Sql, name: string): void {
  sql.run('delete from deadlines where name = ? and runner is not null', name)
}

/** Ends the work that was taken, and says when it is due next. If it was set anew meanwhile, that time stays. */
export function putOffTakenDeadline(sql: Sql, name: string, at: number): void {
  sql.run(
    'update deadlines set at = ?, attempt = 0, runner = null where name = ? and runner is not null',
    at,
    name,
  )
}

/** How often it was taken since it was set; 0 too if there is none. */
export function deadlineAttempts(sql: Sql, name: string): number {
  const [row] = sql.all<{ attempt: number }>('select attempt from deadlines where name = ?', name)
  return row?.attempt ?? 0
}

export function nextDeadline(sql: Sql): number | null {
  return sql.all<{ at: number | null }>('select min(at) as at from deadlines')[0]?.at ?? null
}

/** When it is due; null: there is none of this name. */
export function deadlineAt(sql: Sql, name: string): number | null {
  return sql.all<{ at: number }>('select at from deadlines where name = ?', name)[0]?.at ?? null
}

/** The arguments of all deadlines `name:argument`. */
export function deadlinesOf(sql: Sql, name: string): string[] {
  return sql
    .all<{ name: string }>(
      'select name from deadlines where substr(name, 1, ?) = ?',
      name.length + 1,
      `${name}:`,
    )
    .map((row) => row.name.slice(name.length + 1))
}

/** Takes what is due and puts it off by `leaseMs` in the same step: if the work dies, it comes back by itself. */
export function takeDueDeadlines(
  sql: Sql,
  now: number,
  runner: string,
  leaseMs: number,
): Deadline[] {
  return sql.transaction(() => {
    const due = sql.all<Deadline>(
      'select name, at, attempt, runner from deadlines where at <= ? order by at',
      now,
    )
    if (due.length > 0) {
      sql.run(
        'update deadlines set at = ?, attempt = attempt + 1, runner = ? where at <= ?',
        now + leaseMs,
        runner,
        now,
      )
    }
    return due
  })
}

/** Out of the way, for a release that knows it: to be looked at again then. */
export function putAsideDeadline(sql: Sql, name: string, until: number): void {
  sql.run('update deadlines set at = ?, runner = null where name = ?', until, name)
}

/** Whether somebody is at work on it, as far as this instance knows: what a lost one had taken is released at its start. */
export function isDeadlineTaken(sql: Sql, name: string): boolean {
  return sql.all('select 1 from deadlines where name = ? and runner is not null', name).length > 0
}

/** What a lost instance was at work on is due now. False if there is nothing like that. */
export function releaseTakenDeadlines(sql: Sql, now: number, runner: string): boolean {
  const taken = sql.all('select 1 from deadlines where runner <> ? limit 1', runner)
  if (taken.length === 0) return false
  sql.run('update deadlines set at = ?, runner = null where runner <> ?', now, runner)
  return true
}
