import { isByteLengthOver } from '../../../contract/byte-length.ts'
import { AppError } from '../../../contract/error.ts'
import type { ApprovalId, OperationId, RunId } from '../../../contract/ids.ts'
import { maxLinkMessageBytes } from '../../../contract/link.ts'
import type { IsolationPlan, Operation, OperationRecord } from '../../../contract/operation.ts'
import type { PermissionDecision } from '../../../contract/permission.ts'
import type { Sql } from '../../ports.ts'
import { hideSecretLike } from '../../redaction/redaction.ts'
import { mustApproval } from '../approvals/rows.ts'
import { attemptPatienceMs, attemptsOfOperation } from './attempts.ts'

export interface OperationRow {
  id: string
  run_id: string
  operation: string
  operation_hash: string
  decision: PermissionDecision['decision']
  reason: string
  rule: string
  plan: string
  decision_seq: number
  pending_seq: number | null
  approval_id: string | null
  evaluation_only: number
  created_at: number
}

export function insertOperation(sql: Sql, row: OperationRow): void {
  sql.run(
    `insert into operations (id, run_id, operation, operation_hash, decision, reason, rule, plan, decision_seq, pending_seq,
       approval_id, evaluation_only, created_at) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    row.id,
    row.run_id,
    row.operation,
    row.operation_hash,
    row.decision,
    row.reason,
    row.rule,
    row.plan,
    row.decision_seq,
    row.pending_seq,
    row.approval_id,
    row.evaluation_only,
    row.created_at,
  )
}

export function mustOperation(sql: Sql, id: string): OperationRow {
  const row = sql.all<OperationRow>('select * from operations where id = ?', id)[0]
  if (!row) throw new AppError('not_found', `No such operation: "${id}"`)
  return row
}

/** Beside it in the message: its plan. */
const maxOperationBytes = maxLinkMessageBytes - 64 * 1024

/** Before anything is recorded: nobody is to approve what could never be sent. */
export function operationMustFitLink(operation: Operation): void {
  if (!isByteLengthOver(JSON.stringify(operation), maxOperationBytes)) return
  const most = `${maxOperationBytes / 1024} KiB of JSON`
  throw new AppError('too_large', `Cannot execute "${operation.operation}": it has over ${most}`, [
    { path: 'operation', message: `At most ${most}` },
  ])
}

/** How long the result of an attempt is waited for, from when it is asked for. Null: nobody waits for one. */
export function operationPatienceMs(sql: Sql, attemptId: string): number | null {
  const [row] = sql.all<{ id: string }>(
    `select operation_id as id from attempts where id = ? and status = 'reserved'`,
    attemptId,
  )
  return row === undefined
    ? null
    : attemptPatienceMs(operationWork(mustOperation(sql, row.id)).operation)
}

export function operationWork(row: OperationRow): { operation: Operation; plan: IsolationPlan } {
  return {
    operation: JSON.parse(row.operation) as Operation,
    plan: JSON.parse(row.plan) as IsolationPlan,
  }
}

/** Variables that begin so have secret inputs of an ability. */
export const secretPrefix = 'ABILITY_SECRET_'

function shownWork(row: OperationRow) {
  const { operation, plan } = operationWork(row)
  return { operation: operationWithoutSecrets(operation), plan }
}

/** If there are any, no value of the environment is shown: what has a secret in it cannot be told from the rest. */
export function operationWithoutSecrets(operation: Operation): Operation {
  const names = Object.keys(operation.environment ?? {})
  if (!names.some((name) => name.startsWith(secretPrefix))) return operation
  return {
    ...operation,
    environment: Object.fromEntries(names.map((name) => [name, '[hidden]'])),
  }
}

export function toOperation(sql: Sql, row: OperationRow): OperationRecord {
  const record = {
    id: row.id as OperationId,
    runId: row.run_id as RunId,
    // What runs is what was asked for; what is shown is without what looks like a key.
    ...hideSecretLike(shownWork(row)),
    operationHash: row.operation_hash,
    decision: row.decision,
    reason: row.reason,
    rule: row.rule,
    approvalId: row.approval_id as ApprovalId | null,
    evaluationOnly: row.evaluation_only === 1,
    attempts: attemptsOfOperation(sql, row.id),
    createdAt: row.created_at,
  }
  return { ...record, next: nextSteps(sql, record) }
}

/** An answer about work that does not go on says what is missing, and what may be done. */
function nextSteps(sql: Sql, operation: Omit<OperationRecord, 'next'>): string[] {
  const { approvalId, attempts, decision, evaluationOnly } = operation
  const active = attempts.find(({ status }) => status === 'reserved')
  if (active) {
    return active.dispatched && active.suspectSince === null
      ? [`Wait: GET /v1/operations/${operation.id}?wait=30`]
      : [
          ...(active.dispatched ? [] : [`POST /v1/attempts/${active.id}/execute`]),
          `POST /v1/attempts/${active.id}/abandon`,
        ]
  }
  if (attempts.length > 0) {
    return attempts.some(({ status }) => status === 'succeeded')
      ? []
      : [`POST /v1/operations/${operation.id}/retries with a policy`]
  }
  if (decision === 'deny') return ['Change the policy, or ask for something else']
  if (approvalId === null || evaluationOnly) return []
  const { state } = mustApproval(sql, approvalId)
  if (state === 'pending') return [`POST /v1/approvals/${approvalId}/resolve by somebody else`]
  return state === 'approved' ? [`POST /v1/approvals/${approvalId}/resume`] : []
}
