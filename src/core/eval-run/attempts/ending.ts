import type { ResultRow } from '../../../contract/eval-result.ts'
import { setDeadline } from '../../actor/deadlines.ts'
import { addToOutbox } from '../../actor/outbox.ts'
import type { Sql } from '../../ports.ts'
import { type Attempted, errorResultRow } from '../../evals/results/rows.ts'
import { responseResultWithin } from '../../evals/response/within.ts'
import { tellEvalEvent } from '../record/events.ts'
import { loadRecordedEvalCase, loadEvalRunRecord } from '../record/record.ts'
import {
  type AttemptRow,
  attemptSubject,
  leaveEvalAttempt,
  loadEvalAttempt,
} from '../record/attempts.ts'

/**
 * Inside a commit. The one place where an attempt ends: it has its result, and is never begun again. Two steps may come
 * here, since a cancelled run gives up what is still under way: the first one counts.
 */
export function endEvalAttempt(
  sql: Sql,
  now: number,
  { n }: Pick<AttemptRow, 'n'>,
  whole: ResultRow,
  spentMicros: number,
): void {
  const row = loadEvalAttempt(sql, n)
  if (row.state === 'done') return
  const result = responseResultWithin(whole)
  sql.run(
    `update attempts set state = 'done', ended_at = ?, score = ?, verdict = ?, error = ?, result = ?,
       spent_micros = spent_micros + ?, reserved_micros = 0, response = null, findings = null where n = ?`,
    now,
    result.score,
    result.verdict,
    result.error ?? null,
    JSON.stringify(result),
    spentMicros,
    row.n,
  )
  tellEvalEvent(sql, now, 'attempt.ended', {
    ...attemptSubject(row),
    score: result.score,
    verdict: result.verdict,
    error: result.error ?? null,
  })
  addToOutbox(sql, now, 'eval_result', {
    n: row.n,
    evalId: row.case_id,
    target: row.target,
    repetition: row.repetition,
    sessionId: row.session_id,
    score: result.score,
    verdict: result.verdict,
    error: result.error ?? null,
    row: JSON.stringify(result),
    createdAt: now,
  })
  leaveEvalAttempt(sql, now, row)
  setDeadline(sql, 'plan', now)
}

/** Which attempt a result is about. */
export function endedEvalAttempt(sql: Sql, now: number, row: AttemptRow): Attempted {
  const { dataset } = loadEvalRunRecord(sql)
  return {
    case: loadRecordedEvalCase(sql, row.case_id),
    dataset,
    target: row.target,
    attempt: row.repetition,
    timestamp: new Date(now).toISOString(),
    ...(row.session_id !== null && { transcript: `/v1/sessions/${row.session_id}/events` }),
  }
}

/** Inside a commit: it gave nothing to score. */
export function endEvalAttemptWithError(
  sql: Sql,
  now: number,
  row: AttemptRow,
  error: string,
  spentMicros = 0,
): void {
  endEvalAttempt(sql, now, row, errorResultRow(endedEvalAttempt(sql, now, row), error), spentMicros)
}
