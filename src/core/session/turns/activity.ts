import type { Sql } from '../../ports.ts'
import { runningTurn, wantsSandbox } from './rows.ts'

/**
 * Since when nobody has used the sandbox; null while somebody does. Read off what was done, so that nothing has to be
 * told about it, and looking at a session, which leaves no trace, counts for nothing.
 */
export function idleSinceActivity(sql: Sql, instance: string, generation: number): number | null {
  if (isBusy(sql, instance)) return null
  const [row] = sql.all<{ at: number | null }>(
    `select max(at) as at from (
       select ready_at as at from sandboxes where generation = ?
       union all select max(ended_at) from turns
       union all select max(settled_at) from calls
       union all select max(answered_at) from asks
       union all select max(created_at) from commands where kind <> 'diff')`,
    generation,
  )
  return row?.at ?? 0
}

/** A call whose runner is gone is nobody's work until it is asked for again. */
function isBusy(sql: Sql, instance: string): boolean {
  return (
    runningTurn(sql) !== undefined ||
    wantsSandbox(sql) ||
    some(sql, `asks where state = 'open'`) ||
    some(sql, `commands where state = 'open' and kind <> 'diff' and ${isExpected}`) ||
    sql.all(`select 1 from calls where state = 'pending' and runner = ? limit 1`, instance).length >
      0
  )
}

/** Nobody waits any longer for an attempt that a person must decide about. */
const isExpected = 'id not in (select id from attempts where suspect_since is not null)'

const some = (sql: Sql, from: string) => sql.all(`select 1 from ${from} limit 1`).length > 0
