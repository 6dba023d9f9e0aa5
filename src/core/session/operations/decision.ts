import type { OperationVerdict } from './judge.ts'
import type { Operation } from '../../../contract/operation.ts'
import type { Sql } from '../../ports.ts'
import type { Caller } from '../record/caller.ts'
import { type ApprovalAsker, openApproval } from '../approvals/rows.ts'
import { insertOperation, type OperationRow, operationWithoutSecrets } from './rows.ts'
import { changeRun, recordOnRun, type RunRow } from '../runs/rows.ts'
import { hashText } from '../../hash.ts'

export interface NewOperation {
  id: string
  /** Used if the decision is to ask. */
  approvalId: string
  operation: Operation
  /** Nothing waits for the approval then, so there is nothing to resume. */
  evaluateOnly: boolean
}

/** Whoever has this key asks. */
export const askerOf = ({
  keyId,
  owner,
  countsAs,
}: Pick<Caller, 'keyId' | 'owner' | 'countsAs'>): ApprovalAsker => ({
  ...{ kind: 'key', id: keyId, owner },
  countsAs: countsAs?.owner ?? null,
})

/** The decision is recorded before anything else happens; then the operation is blocked, parked, or may start. */
export function recordOperationDecision(
  sql: Sql,
  now: number,
  asker: ApprovalAsker,
  run: RunRow,
  { id, approvalId, operation, evaluateOnly }: NewOperation,
  verdict: OperationVerdict,
): OperationRow {
  const { decision, reason, rule } = verdict.record
  const text = JSON.stringify(operation)
  const decisionSeq = recordOnRun(sql, now, run.id, 'permission-decision', { ...verdict.record })
  changeRun(sql, now, run.id, 'start', null)
  const row: OperationRow = {
    id,
    run_id: run.id,
    operation: text,
    operation_hash: hashText(text),
    decision,
    reason,
    rule,
    plan: JSON.stringify(verdict.plan),
    decision_seq: decisionSeq,
    pending_seq: null,
    approval_id: decision === 'ask' ? approvalId : null,
    evaluation_only: evaluateOnly ? 1 : 0,
    created_at: now,
  }
  if (!evaluateOnly && decision !== 'allow') row.pending_seq = recordWaiting(sql, now, row)
  insertOperation(sql, row)
  if (decision === 'ask') askFor(sql, now, asker, row, operation, verdict)
  return row
}

function recordWaiting(sql: Sql, now: number, row: OperationRow): number {
  return recordOnRun(sql, now, row.run_id, 'operation-execution', {
    operationId: row.id,
    approvalId: row.approval_id,
    decisionSeq: row.decision_seq,
    operationHash: row.operation_hash,
    status: row.decision === 'ask' ? 'pending-approval' : 'blocked',
    reason: row.reason,
    executorInvoked: false,
  })
}

function askFor(
  sql: Sql,
  now: number,
  asker: ApprovalAsker,
  row: OperationRow,
  operation: Operation,
  { record: decision, terms }: OperationVerdict,
): void {
  openApproval(sql, now, {
    id: row.approval_id ?? '',
    runId: row.run_id,
    kind: 'operation',
    asker,
    subject: row.id,
    title: `${operation.category}: ${operation.operation}`,
    operation: operationWithoutSecrets(operation),
    operationHash: row.operation_hash,
    decisionSeq: row.decision_seq,
    decision,
    terms,
    resumable: row.evaluation_only === 0,
  })
}
