import type { Sql } from './ports.ts'

/**
 * Named points in time over the one alarm that an object has. A row stays until the work that it stands for has
 * committed, so a crash at any moment only means that the work is done again.
 */
export const deadlineSchema = [
  `create table deadlines (
    name text primary key,
    at integer not null,
    attempt integer not null default 0,
    -- The instance that is at work on it.
    runner text
  )`,
] as const

export interface Deadline {
  name: string
  at: number
  attempt: number
  /** The instance that took it before, if it has not been set anew since. */
  runner: string | null
}

export function setDeadline(sql: Sql, name: string, at: number, attempt = 0): void {
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
  sql.run('insert or ignore into deadlines (name, at) values (?, ?)', name, at)
}

/** Makes it earlier, if there is one: what it waited for has come. */
export function hurryDeadline(sql: Sql, name: string, at: number): void {
  sql.run('update deadlines set at = ? where name = ? and at > ?', at, name, at)
}

export function clearDeadline(sql: Sql, name: string): void {
  sql.run('delete from deadlines where name = ?', name)
}

export function nextDeadline(sql: Sql): number | null {
  return sql.all<{ at: number | null }>('select min(at) as at from deadlines')[0]?.at ?? null
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
export function takeDue(sql: Sql, now: number, runner: string, leaseMs: number): Deadline[] {
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

/** Whether somebody is at work on it, as far as this instance knows: what a lost one had taken is released at its start. */
export function isTaken(sql: Sql, name: string): boolean {
  return sql.all('select 1 from deadlines where name = ? and runner is not null', name).length > 0
}

/** What a lost instance was at work on is due now. False if there is nothing like that. */
export function releaseTaken(sql: Sql, now: number, runner: string): boolean {
  const taken = sql.all('select 1 from deadlines where runner <> ? limit 1', runner)
  if (taken.length === 0) return false
  sql.run('update deadlines set at = ?, runner = null where runner <> ?', now, runner)
  return true
}

/** 1 s, 2 s, 4 s … at most 30 s. */
export function backoffMs(attempt: number): number {
  return Math.min(30_000, 1000 * 2 ** Math.min(attempt, 5))
}
