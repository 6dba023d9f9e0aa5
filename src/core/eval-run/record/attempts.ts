import type { EvalAttempt, EvalAttemptState } from '../../../contract/eval-run.ts'
import type { EvaluatorAnswer } from '../../../contract/eval-request.ts'
import type { ProviderResponse } from '../../../contract/eval-response.ts'
import type { EvalVerdict, ResultRow } from '../../../contract/eval-result.ts'
import type { SessionId } from '../../../contract/ids.ts'
import type { RegistryRevision } from '../../../contract/promotion.ts'
import { setDeadline } from '../../actor/deadlines.ts'
import { pageThatFits } from '../../actor/paging.ts'
import type { Sql } from '../../ports.ts'

export interface AttemptRow {
  n: number
  case_id: string
  target: string
  repetition: number
  attempt: number
  state: EvalAttemptState
  session_id: string | null
  turn_id: string | null
  due_at: number | null
  reserved_micros: number
  spent_micros: number
  response: string | null
  findings: string | null
  started_at: number | null
  ended_at: number | null
  score: number | null
  verdict: EvalVerdict | null
  error: string | null
  result: string | null
  tried: string | null
  began: string | null
}

export function loadEvalAttempt(sql: Sql, n: number): AttemptRow {
  const [row] = sql.all<AttemptRow>('select * from attempts where n = ?', n)
  if (!row) throw new Error(`The run has no attempt ${n}`)
  return row
}

/** Its session is closed, and deleted with the run. */
export function leaveEvalAttempt(sql: Sql, now: number, { n, session_id }: AttemptRow): void {
  if (session_id === null) return
  sql.run('insert or ignore into sessions (id, n) values (?, ?)', session_id, n)
  setDeadline(sql, 'close', now)
}

const underWay = `state in ('starting', 'working', 'judging')`

/** Those that may begin now, in their order: each target has its own limit, and the run has one for all. */
export function nextPendingEvalAttempt(sql: Sql, workers: number): AttemptRow[] {
  const targets = sql.all<{ name: string; workers: number; busy: number }>(
    `select name, body ->> '$.workers' as workers,
       (select count(*) from attempts where target = name and ${underWay}) as busy
     from targets where is_run = 1 order by n`,
  )
  let free = workers - targets.reduce((sum, { busy }) => sum + busy, 0)
  return targets.flatMap(({ name, workers: own, busy }) => {
    const room = Math.min(free, own - busy)
    if (room <= 0) return []
    const rows = sql.all<AttemptRow>(
      `select * from attempts where state = 'pending' and target = ? order by n limit ?`,
      name,
      room,
    )
    free -= rows.length
    return rows
  })
}

export const hasOpenAttempts = (sql: Sql): boolean =>
  sql.all(`select 1 from attempts where state <> 'done' limit 1`).length > 0

export const hasAttemptsUnderWay = (sql: Sql): boolean =>
  sql.all(`select 1 from attempts where ${underWay} limit 1`).length > 0

export interface Counted {
  total: number
  pending: number
  done: number
  passed: number
  errors: number
  score: number | null
  spentMicros: number
  reservedMicros: number
}

export function countEvalAttempts(sql: Sql): Counted {
  const [row] = sql.all<Counted>(
    `select count(*) as total,
       coalesce(sum(state = 'pending'), 0) as pending,
       coalesce(sum(state = 'done'), 0) as done,
       coalesce(sum(verdict = 'pass'), 0) as passed,
       coalesce(sum(state = 'done' and error is not null), 0) as errors,
       avg(score) as score,
       coalesce(sum(spent_micros), 0) as spentMicros,
       coalesce(sum(case when ${underWay} then reserved_micros else 0 end), 0) as reservedMicros
     from attempts`,
  )
  return row as Counted
}

export function listEvalAttempts(
  sql: Sql,
  page: { limit: number; after: number | null },
): EvalAttempt[] {
  const query = {
    from: 'attempts where n > ?',
    by: 'n',
    size: 'coalesce(length(result), 0)',
    limit: page.limit,
  }
  return pageThatFits<AttemptRow>(sql, query, page.after ?? 0).map(toEvalAttempt)
}

function toEvalAttempt(row: AttemptRow): EvalAttempt {
  return {
    n: row.n,
    evalCaseId: row.case_id,
    target: row.target,
    repetition: row.repetition,
    attempt: row.attempt,
    state: row.state,
    sessionId: row.session_id as SessionId | null,
    startedAt: row.started_at,
    endedAt: row.ended_at,
    tried: triedIn(row),
    result: row.result === null ? null : (JSON.parse(row.result) as ResultRow),
  }
}

const triedIn = ({ tried }: Pick<AttemptRow, 'tried'>): RegistryRevision[] =>
  tried === null ? [] : (JSON.parse(tried) as RegistryRevision[])

export const attemptResponse = ({ response }: AttemptRow): ProviderResponse | null =>
  response === null ? null : (JSON.parse(response) as ProviderResponse)

/** By the ids of requests: names that users chose, such as "__proto__". */
export type Findings = Map<string, EvaluatorAnswer>
export const attemptFindings = ({ findings }: AttemptRow): Findings =>
  new Map(
    Object.entries(
      findings === null ? {} : (JSON.parse(findings) as Record<string, EvaluatorAnswer>),
    ),
  )

/** What every event about an attempt says of it. */
export const attemptSubject = ({ n, case_id, target, repetition }: AttemptRow) => ({
  ...{ n, evalCaseId: case_id, target, repetition },
})
