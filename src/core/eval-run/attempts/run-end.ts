import { canonicalJson } from '../../../contract/canonical.ts'
import type { EvalRunStatus } from '../../../contract/eval-run.ts'
import type { RegistryRevision } from '../../../contract/promotion.ts'
import { clearDeadline, ensureDeadline, setDeadline } from '../../actor/deadlines.ts'
import { addToOutbox } from '../../actor/outbox.ts'
import { hashText } from '../../hash.ts'
import type { Sql } from '../../ports.ts'
import { endEvalAttemptWithError } from './ending.ts'
import { type AttemptRow, countEvalAttempts, hasOpenAttempts } from '../record/attempts.ts'
import { tellEvalEvent } from '../record/events.ts'
import { loadEvalRunRecord, type EvalRunRecord, recordedEvalTargets } from '../record/record.ts'

const micros = 1_000_000

/**
 * Inside a commit. What one of so many attempts that begin now may use, in millionths: an equal part of what is neither
 * spent nor kept for those that run, so that all together never use more than the run has. Null: there is no limit.
 */
export function attemptShare(
  sql: Sql,
  { budget }: EvalRunRecord,
  beginning: number,
): number | null {
  if (budget.moneyUsd === undefined) return null
  const { spentMicros, reservedMicros } = countEvalAttempts(sql)
  const left = Math.floor(budget.moneyUsd * micros) - spentMicros - reservedMicros
  return Math.max(0, Math.floor(left / beginning))
}

/** Inside a commit: nothing more is begun; what runs is given up by its own deadline. */
export function stopEvalRun(
  sql: Sql,
  now: number,
  status: Extract<EvalRunStatus, 'cancelled' | 'stopped'>,
  reason: string,
): void {
  if (loadEvalRunRecord(sql).status !== 'running') return
  sql.run('update eval_run set status = ?, reason = ?', status, reason)
  for (const row of sql.all<AttemptRow>(
    `select * from attempts where state <> 'done' order by n`,
  )) {
    if (row.state === 'pending') endEvalAttemptWithError(sql, now, row, reason)
    else setDeadline(sql, `attempt:${row.n}`, now)
  }
  setDeadline(sql, 'plan', now)
}

/** Inside a commit: every attempt has its result. */
export function endEvalRun(sql: Sql, now: number, retentionMs: number): void {
  const run = loadEvalRunRecord(sql)
  if (run.endedAt !== null || hasOpenAttempts(sql)) return
  const status = run.status === 'running' ? 'completed' : run.status
  sql.run('update eval_run set status = ?, ended_at = ?, hash = ?', status, now, hashOf(sql, run))
  clearDeadline(sql, 'time')
  ensureDeadline(sql, 'purge', now + retentionMs)
  if (status !== 'erased') tellEvalEvent(sql, now, 'run.ended', { status, reason: run.reason })
  projectEvalRun(sql, now)
}

/** Of what the results are, in their order. Anybody who has the rows can work it out. */
function hashOf(sql: Sql, { digest }: EvalRunRecord): string {
  const rows = sql.all<{ result: string }>('select result from attempts order by n')
  const lines = rows.map(({ result }) => hashText(canonicalJson(JSON.parse(result))))
  return hashText(canonicalJson([digest, ...lines]))
}

/** What every session of a target began with: an attempt without one has failed, and counts as that. */
function triedByAll(sql: Sql): (RegistryRevision & { target: string })[] {
  return sql.all<RegistryRevision & { target: string }>(
    `select target, one.value ->> '$.kind' as kind, one.value ->> '$.name' as name, one.value ->> '$.sha256' as sha256
     from attempts as a, json_each(a.tried) as one group by 1, 2, 3, 4
     having count(distinct a.n) = (select count(*) from attempts where target = a.target and session_id is not null)`,
  )
}

/** How the run stands, on its way to libSQL. */
export function projectEvalRun(sql: Sql, now: number): void {
  const run = loadEvalRunRecord(sql)
  if (run.status === 'erased') return
  const { total, passed, errors, score } = countEvalAttempts(sql)
  addToOutbox(sql, now, 'eval_run', {
    project: run.project,
    memberId: run.memberId,
    dataset: run.dataset,
    digest: run.digest,
    targets: JSON.stringify(recordedEvalTargets(sql)),
    status: run.status,
    reason: run.reason,
    attempts: total,
    passed,
    errors,
    score,
    hash: run.hash,
    tried: JSON.stringify(triedByAll(sql)),
    createdAt: run.createdAt,
    endedAt: run.endedAt,
  })
}
