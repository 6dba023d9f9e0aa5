import type { Approval, ApprovalResolve } from '../../../contract/approval.ts'
import type { Sql } from '../../ports.ts'

/** Exactly this operation is allowed again, for a time. */
export function addGrant(
  sql: Sql,
  now: number,
  approval: { id: string; operation_hash: string; run_id: string },
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

/** The approvals that still cover it. */
export function findGrants(sql: Sql, now: number, operationHash: string, runId: string): string[] {
  return sql
    .all<{ id: string }>(
      `select approval_id as id from grants
       where operation_hash = ? and expires_at > ? and (run_id is null or run_id = ?)`,
      operationHash,
      now,
      runId,
    )
    .map(({ id }) => id)
}

export function grantOf(sql: Sql, approvalId: string): Approval['remembered'] {
  const [row] = sql.all<{ run_id: string | null; expires_at: number }>(
    'select run_id, expires_at from grants where approval_id = ?',
    approvalId,
  )
  return row ? { scope: row.run_id === null ? 'session' : 'run', expiresAt: row.expires_at } : null
}

/** It is over now. False if it was before. */
export function endGrant(sql: Sql, now: number, approvalId: string): boolean {
  const grant = grantOf(sql, approvalId)
  if (!grant || grant.expiresAt <= now) return false
  sql.run('update grants set expires_at = ? where approval_id = ?', now, approvalId)
  return true
}
