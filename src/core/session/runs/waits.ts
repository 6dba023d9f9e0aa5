import type { Sql } from '../../ports.ts'
import { appendEvent } from '../log/events.ts'
import { changeRun, mustRun, projectRun, type RunRow, type Wait, waitsOf } from './rows.ts'
import { hasEnded } from './transitions.ts'

/** Something needs a person: the run waits from now on, or for one more thing. */
export function addRunWait(sql: Sql, now: number, runId: string, what: string, why: string): void {
  const run = mustRun(sql, runId)
  if (hasEnded(run.status) || isWaitingFor(run, what)) return
  saveWaits(sql, run, [...waitsOf(run), { what, why }])
  changeRun(sql, now, runId, 'wait', why)
}

/** A person has done it. The run goes on once nothing else is waited for. */
export function endRunWait(
  sql: Sql,
  now: number,
  runId: string,
  what: string,
  reason: string,
): void {
  const run = mustRun(sql, runId)
  if (hasEnded(run.status) || !isWaitingFor(run, what)) return
  const left = waitsOf(run).filter((wait) => wait.what !== what)
  saveWaits(sql, run, left)
  const [next] = left
  if (next) explain(sql, now, run, next.why)
  else changeRun(sql, now, runId, 'answer', reason)
}

const isWaitingFor = (run: RunRow, what: string): boolean =>
  waitsOf(run).some((wait) => wait.what === what)

/** The reason that is shown is one that still holds. */
function explain(sql: Sql, now: number, run: RunRow, reason: string): void {
  if (run.reason === reason) return
  sql.run('update runs set reason = ?, updated_at = ? where n = ?', reason, now, run.n)
  appendEvent(sql, now, 'run.changed', { runId: run.id, status: run.status, reason })
  projectRun(sql, now, run.id)
}

function saveWaits(sql: Sql, run: RunRow, waits: Wait[]): void {
  sql.run('update runs set waits_for = ? where n = ?', JSON.stringify(waits), run.n)
}
