import type { Sql } from './ports.ts'

/**
 * Named points in time over the one alarm that an object has. A row stays until the work that it stands for has
 * committed, so a crash at any moment only means that the work is done again.
 */
export const deadlineSchema = [
  'create table deadlines (name text primary key, at integer not null, attempt integer not null default 0)',
] as const

export interface Deadline {
  name: string
  at: number
  attempt: number
}

export function setDeadline(sql: Sql, name: string, at: number, attempt = 0): void {
  sql.run(
    `insert into deadlines (name, at, attempt) values (?, ?, ?)
     on conflict (name) do update set at = excluded.at, attempt = excluded.attempt`,
    name,
    at,
    attempt,
  )
}

/** Leaves an earlier one alone: for work that is already promised. */
export function ensureDeadline(sql: Sql, name: string, at: number): void {
  sql.run('insert or ignore into deadlines (name, at) values (?, ?)', name, at)
}

export function clearDeadline(sql: Sql, name: string): void {
  sql.run('delete from deadlines where name = ?', name)
}

export function nextDeadline(sql: Sql): number | null {
  return sql.all<{ at: number | null }>('select min(at) as at from deadlines')[0]?.at ?? null
}

/** Takes what is due and puts it off by `leaseMs` in the same step: if the work dies, it comes back by itself. */
export function takeDue(sql: Sql, now: number, leaseMs: number): Deadline[] {
  return sql.transaction(() => {
    const due = sql.all<Deadline>('select name, at, attempt from deadlines where at <= ? order by at', now)
    if (due.length > 0) {
      sql.run('update deadlines set at = ?, attempt = attempt + 1 where at <= ?', now + leaseMs, now)
    }
    return due
  })
}

/** 1 s, 2 s, 4 s … at most 30 s. */
export function backoffMs(attempt: number): number {
  return Math.min(30_000, 1000 * 2 ** Math.min(attempt, 5))
}
