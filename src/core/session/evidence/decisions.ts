import type { FileReview, RejectedFile } from '../../../contract/change-ledger.ts'
import type { OperationRecord } from '../../../contract/operation.ts'
import type { Sql } from '../../ports.ts'
import { mustApproval } from '../approvals/rows.ts'
import { mustOperation, toOperation } from '../operations/rows.ts'

// What people have said of the changes of a file. A decision is about the file as its newest event left it: another
// change makes it undecided again.

export interface DecisionRow {
  n: number
  run_id: string
  path: string
  about: string
  decision: 'accepted' | 'rejected'
  operation_id: string | null
  /** JSON. Null: the whole file. */
  hunks: string | null
  actor: string
  reason: string
  created_at: number
}

export function addEvidenceDecision(sql: Sql, row: Omit<DecisionRow, 'n'>): void {
  sql.run(
    `insert into change_decisions (run_id, path, about, decision, operation_id, hunks, actor, reason, created_at)
     values (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    row.run_id,
    row.path,
    row.about,
    row.decision,
    row.operation_id,
    row.hunks,
    row.actor,
    row.reason,
    row.created_at,
  )
}

export const aboutOf = ({ events }: FileReview): string => events.at(-1)?.hash ?? ''

export function lastEvidenceDecision(
  sql: Sql,
  runId: string,
  file: FileReview,
): DecisionRow | undefined {
  return sql.all<DecisionRow>(
    `select * from change_decisions where run_id = ? and path = ? and about = ? order by n desc limit 1`,
    runId,
    file.path,
    aboutOf(file),
  )[0]
}

export const withDecision =
  (sql: Sql, runId: string) =>
  (file: FileReview): FileReview => ({
    ...file,
    decision: decisionOf(lastEvidenceDecision(sql, runId, file)),
  })

function decisionOf(row: DecisionRow | undefined): FileReview['decision'] {
  if (row === undefined) return null
  return row.hunks === null ? row.decision : 'partly-rejected'
}

export interface TakenBack {
  /** By what it was or is to be taken back, newest last. */
  all: { file: RejectedFile; hunks: string[] | null }[]
  /** What the disk has no more, if nobody else has written. */
  applied: Set<string>
  isWhole: boolean
  /** One that may yet be applied, or nobody can say. */
  open: RejectedFile | null
}

/** What has been ordered about a file as it is. */
export function fileDecisions(sql: Sql, runId: string, review: FileReview): TakenBack {
  const rows = sql.all<DecisionRow>(
    `select * from change_decisions where run_id = ? and path = ? and about = ?
       and decision = 'rejected' and operation_id is not null order by n`,
    runId,
    review.path,
    aboutOf(review),
  )
  const all = rows.map(({ operation_id, hunks }) => ({
    file: rejectedByDecision(sql, review.path, operation_id ?? ''),
    hunks: hunks === null ? null : (JSON.parse(hunks) as string[]),
  }))
  const done = all.filter(({ file }) => file.state === 'applied')
  return {
    all,
    applied: new Set(done.flatMap(({ hunks }) => hunks ?? [])),
    isWhole: done.some(({ hunks }) => hunks === null),
    open: all.find(({ file }) => isSettled(file) && file.state !== 'applied')?.file ?? null,
  }
}

/** How far an operation that takes a file back has come. */
export function rejectedByDecision(sql: Sql, path: string, operationId: string): RejectedFile {
  const operation = toOperation(sql, mustOperation(sql, operationId))
  const { id, approvalId } = operation
  return { path, operationId: id, approvalId, ...stateOf(sql, operation) }
}

function stateOf(sql: Sql, operation: OperationRecord): Pick<RejectedFile, 'state' | 'reason'> {
  const attempt = operation.attempts.at(-1)
  if (!attempt) return withoutAttempt(sql, operation)
  const reason = attempt.report?.error ?? attempt.reason ?? attempt.report?.output ?? null
  const isMoving = attempt.status === 'reserved' && attempt.suspectSince === null
  if (isMoving) return { state: 'planned', reason: null }
  if (attempt.status === 'succeeded') return { state: 'applied', reason }
  if (attempt.status !== 'failed') return { state: 'unknown', reason }
  return { state: reason?.startsWith('Conflict') ? 'conflict' : 'failed', reason }
}

function withoutAttempt(
  sql: Sql,
  { decision, reason, approvalId }: OperationRecord,
): Pick<RejectedFile, 'state' | 'reason'> {
  const approval = approvalId === null ? undefined : mustApproval(sql, approvalId)
  const isOpen = approval?.state === 'pending' || approval?.state === 'approved'
  if (decision === 'ask' && isOpen) return { state: 'waiting', reason }
  return { state: 'denied', reason: approval?.resolution_reason ?? reason }
}

/** One that may yet be applied, or was: asking again changes nothing. */
const isSettled = ({ state }: RejectedFile): boolean =>
  state !== 'conflict' && state !== 'denied' && state !== 'failed'
