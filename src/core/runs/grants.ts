import type { ApprovalResolve } from '../../contract/approval.ts'
import type { IsolationPlan, Operation } from '../../contract/operation.ts'
import type { Sql } from '../ports.ts'
import { type ApprovalRow, mustApproval } from './approvals.ts'
import { mustOperation, workOf } from './operations.ts'
import { hashText } from './timeline.ts'

export const grantSchema = [
  `create table grants (
    approval_id text primary key,
    operation_hash text not null,
    -- Null: the whole session.
    run_id text,
    expires_at integer not null
  )`,
  'create index grants_by_operation on grants (operation_hash)',
] as const

/** Exactly this operation is allowed again, for a time. */
export function addGrant(
  sql: Sql,
  now: number,
  approval: ApprovalRow,
  { scope, expiresInSeconds }: NonNullable<ApprovalResolve['remember']>,
): void {
  sql.run(
    'insert or ignore into grants values (?, ?, ?, ?)',
    approval.id,
    approval.operation_hash,
    scope === 'run' ? approval.run_id : null,
    now + expiresInSeconds * 1000,
  )
}

/** The approval that still covers it. */
export function findGrant(
  sql: Sql,
  now: number,
  operationHash: string,
  runId: string,
): string | null {
  return (
    sql.all<{ id: string }>(
      `select approval_id as id from grants
       where operation_hash = ? and expires_at > ? and (run_id is null or run_id = ?) limit 1`,
      operationHash,
      now,
      runId,
    )[0]?.id ?? null
  )
}

/** One that was approved under a plan that held it to no more than this one does. */
export function findOperationGrant(
  sql: Sql,
  now: number,
  operation: Operation,
  { notEnforced }: IsolationPlan,
  runId: string,
): string | null {
  const granted = findGrant(sql, now, hashText(JSON.stringify(operation)), runId)
  if (granted === null) return null
  const { plan } = workOf(mustOperation(sql, mustApproval(sql, granted).subject))
  return notEnforced.every((each) => plan.notEnforced.includes(each)) ? granted : null
}
