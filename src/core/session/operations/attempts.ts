import { AppError } from '../../../contract/error.ts'
import type { ApprovalId, AttemptId, OperationId, RunId } from '../../../contract/ids.ts'
import type {
  Attempt,
  AttemptStatus,
  ExecutionReport,
  IsolationPlan,
  Operation,
  Strategy,
} from '../../../contract/operation.ts'
import { clearDeadline, setDeadline } from '../../actor/deadlines.ts'
import { addToOutbox } from '../../actor/outbox.ts'
import type { Sql } from '../../ports.ts'
import { addCommand, finishCommand } from '../commands/rows.ts'
import { loadSession } from '../record/record.ts'
import { pageThatFits } from '../../actor/paging.ts'
import { findRun, recordOnRun } from '../runs/rows.ts'
import { hasEnded } from '../runs/transitions.ts'
import { endRunWait, addRunWait } from '../runs/waits.ts'
import { loseWorktreeSteps } from './worktrees.ts'

/** Beyond the operation's own time: for the way there and back, and for a sandbox that boots first. */
const graceMs = 60_000

/** So long its result is waited for. */
export const attemptPatienceMs = ({ timeoutMs }: Pick<Operation, 'timeoutMs'>): number =>
  timeoutMs + graceMs

interface AttemptRow {
  n: number
  id: string
  operation_id: string
  run_id: string
  approval_id: string | null
  decision_seq: number
  pending_seq: number | null
  sequence: number
  executor: Strategy
  status: AttemptStatus
  dispatched: number
  suspect_since: number | null
  report: string | null
  actor: string | null
  reason: string | null
  reserved_at: number
  finished_at: number | null
}

interface NewAttempt {
  id: string
  operationId: string
  runId: string
  approvalId: string | null
  decisionSeq: number
  pendingSeq: number | null
  executor: Strategy
}

/** Before anything runs. Refuses while another one is reserved, whoever else comes at the same moment. */
export function reserveAttempt(sql: Sql, now: number, attempt: NewAttempt): Attempt {
  const earlier = attemptsOfOperation(sql, attempt.operationId)
  const active = earlier.find(({ status }) => status === 'reserved')
  if (active)
    throw new AppError('wrong_state', `Attempt "${active.id}" of this operation is reserved`)
  sql.run(
    `insert into attempts (id, operation_id, run_id, approval_id, decision_seq, pending_seq, sequence, executor, status,
       dispatched, reserved_at) values (?, ?, ?, ?, ?, ?, ?, ?, 'reserved', 0, ?)`,
    attempt.id,
    attempt.operationId,
    attempt.runId,
    attempt.approvalId,
    attempt.decisionSeq,
    attempt.pendingSeq,
    earlier.length + 1,
    attempt.executor,
    now,
  )
  projectAttempt(sql, now, attempt.id)
  return toAttempt(mustRow(sql, attempt.id))
}

/** And not sent to anybody. */
export function mustBeReservedAttempt(sql: Sql, id: string): AttemptRow {
  const row = mustRow(sql, id)
  if (row.status === 'reserved' && row.dispatched === 0) return row
  const state = row.status === 'reserved' ? 'under way' : row.status
  throw new AppError('wrong_state', `Cannot execute attempt "${id}": it is ${state}`)
}

/** Into the sandbox's hands, by a command that is delivered until it is answered and begun once. */
export function dispatchAttempt(
  sql: Sql,
  now: number,
  id: string,
  work: { operation: Operation; plan: IsolationPlan },
): void {
  const row = mustBeReservedAttempt(sql, id)
  sql.run('update attempts set dispatched = 1 where n = ?', row.n)
  const { generation } = loadSession(sql)
  addCommand(sql, now, {
    id,
    generation,
    kind: 'execute',
    body: { attemptId: id as AttemptId, ...withModeApart(work.operation), plan: work.plan },
  })
  setDeadline(sql, `attempt:${id}`, now + attemptPatienceMs(work.operation))
  projectAttempt(sql, now, id)
}

/** As an agent of any build takes it. */
function withModeApart(operation: Operation): { operation: Operation; executable?: boolean } {
  if (operation.revert?.executable === undefined) return { operation }
  const { executable, ...revert } = operation.revert
  return { operation: { ...operation, revert }, executable }
}

/** Null if it is not reserved any more: it was abandoned, or the result has come before. */
export function finaliseAttempt(
  sql: Sql,
  now: number,
  id: string,
  report: ExecutionReport,
): Attempt | null {
  const row = findRow(sql, id)
  if (row?.status !== 'reserved') return null
  if (report.status === 'unknown') {
    suspectAttempt(sql, now, id, report.error ?? 'The sandbox cannot say how it ended')
    return null
  }
  sql.run(
    'update attempts set status = ?, report = ?, suspect_since = null, finished_at = ? where n = ?',
    report.status,
    JSON.stringify(report),
    now,
    row.n,
  )
  settle(sql, now, row, `Attempt ${row.sequence} has ${report.status}`)
  recordExecution(sql, now, row, {
    status: report.status,
    exitCode: report.exitCode,
    error: report.error,
    executorInvoked: row.dispatched === 1,
    operationExecuted: report.status === 'succeeded',
    policyReevaluated: false,
  })
  projectAttempt(sql, now, id)
  return toAttempt(mustRow(sql, id))
}

/** Nobody knows whether it ran. It stays reserved, so nothing runs twice, and a person decides. */
export function suspectAttempt(sql: Sql, now: number, id: string, reason: string): void {
  const row = findRow(sql, id)
  clearDeadline(sql, `attempt:${id}`)
  if (row?.status !== 'reserved' || row.suspect_since !== null) return
  sql.run('update attempts set suspect_since = ?, reason = ? where n = ?', now, reason, row.n)
  recordExecution(sql, now, row, { status: 'suspect', reason })
  addRunWait(sql, now, row.run_id, id, `Attempt "${id}" may or may not have run: ${reason}`)
  projectAttempt(sql, now, id)
}

/** Their sandbox is gone: whether they have run nobody can say any more. */
export function suspectAllAttempts(sql: Sql, now: number, reason: string): void {
  const rows = sql.all<{ id: string }>(
    `select id from attempts where status = 'reserved' and dispatched = 1 order by n`,
  )
  for (const { id } of rows) suspectAttempt(sql, now, id, reason)
  loseWorktreeSteps(sql, now, reason)
}

/** Whoever ended the run wants nothing more of it. The sandbox is told; how an attempt ends, its own result says. */
export function cancelAttempts(sql: Sql, now: number, runId: string, actor: string): void {
  const rows = sql.all<AttemptRow>(
    `select * from attempts where run_id = ? and status = 'reserved' and dispatched = 1 order by n`,
    runId,
  )
  for (const row of rows) {
    tellToStop(sql, now, row)
    recordExecution(sql, now, row, { status: 'cancelling', actor })
  }
}

function tellToStop(sql: Sql, now: number, { id }: AttemptRow): void {
  const { generation } = loadSession(sql)
  const body = { attemptId: id as AttemptId }
  addCommand(sql, now, { id: `cancel_${id}`, generation, kind: 'cancel', body })
}

/** For recovery only: nothing is executed or retried. */
export function abandonAttempt(
  sql: Sql,
  now: number,
  id: string,
  by: { actor: string; reason: string },
): Attempt {
  const row = mustRow(sql, id)
  if (row.status !== 'reserved')
    throw new AppError('wrong_state', `Cannot abandon attempt "${id}": it is ${row.status}`)
  sql.run(
    `update attempts set status = 'abandoned', actor = ?, reason = ?, suspect_since = null, finished_at = ? where n = ?`,
    by.actor,
    by.reason,
    now,
    row.n,
  )
  finishCommand(sql, id, false, 'The attempt was abandoned')
  // It may run all the same, and a retry may come next.
  if (row.dispatched === 1) tellToStop(sql, now, row)
  settle(sql, now, row, `Attempt ${row.sequence} was abandoned`)
  recordExecution(sql, now, row, { status: 'abandoned', ...by, executorInvoked: false })
  projectAttempt(sql, now, id)
  return toAttempt(mustRow(sql, id))
}

function settle(sql: Sql, now: number, row: AttemptRow, reason: string): void {
  clearDeadline(sql, `attempt:${row.id}`)
  endRunWait(sql, now, row.run_id, row.id, reason)
}

/** A run that has ended meanwhile still says what became of its attempt: its timeline stays open for that. */
function recordExecution(
  sql: Sql,
  now: number,
  row: AttemptRow,
  data: Record<string, unknown>,
): void {
  const run = findRun(sql, row.run_id)
  recordOnRun(sql, now, row.run_id, 'operation-execution', {
    operationId: row.operation_id,
    attemptId: row.id,
    approvalId: row.approval_id,
    sequence: row.sequence,
    ...(run && hasEnded(run.status) ? { late: true } : {}),
    ...data,
  })
}

export function attemptsOfOperation(sql: Sql, operationId: string): Attempt[] {
  return sql
    .all<AttemptRow>('select * from attempts where operation_id = ? order by sequence', operationId)
    .map(toAttempt)
}

export function attemptsOfRun(sql: Sql, runId: string): Attempt[] {
  const from = 'attempts where run_id = ?'
  const query = { from, by: 'n desc', size: 'coalesce(length(report), 0)', limit: 200 }
  return pageThatFits<AttemptRow>(sql, query, runId).map(toAttempt)
}

export const loadAttempt = (sql: Sql, id: string): Attempt => toAttempt(mustRow(sql, id))

const findRow = (sql: Sql, id: string) =>
  sql.all<AttemptRow>('select * from attempts where id = ?', id)[0]

function mustRow(sql: Sql, id: string): AttemptRow {
  const row = findRow(sql, id)
  if (!row) throw new AppError('not_found', `No such attempt: "${id}"`)
  return row
}

function toAttempt(row: AttemptRow): Attempt {
  return {
    id: row.id as AttemptId,
    operationId: row.operation_id as OperationId,
    runId: row.run_id as RunId,
    approvalId: row.approval_id as ApprovalId | null,
    decisionSeq: row.decision_seq,
    pendingSeq: row.pending_seq,
    sequence: row.sequence,
    executor: row.executor,
    status: row.status,
    dispatched: row.dispatched === 1,
    suspectSince: row.suspect_since,
    report: row.report === null ? null : (JSON.parse(row.report) as ExecutionReport),
    actor: row.actor,
    reason: row.reason,
    reservedAt: row.reserved_at,
    finishedAt: row.finished_at,
  }
}

export function projectAttempt(sql: Sql, now: number, id: string): void {
  const { report: _, ...attempt } = toAttempt(mustRow(sql, id))
  addToOutbox(sql, now, 'attempt', { ...attempt, suspect: attempt.suspectSince === null ? 0 : 1 })
}
