import type { Approval } from '../../../contract/approval.ts'
import type { ApprovalId, RunId, SessionId } from '../../../contract/ids.ts'
import type { PermissionRecord } from '../../../contract/permission-record.ts'
import type { PermissionRequest } from '../../../contract/permission.ts'
import type { Sql } from '../../ports.ts'
import { loadSession } from '../record/record.ts'
import { detailsOf } from './details.ts'
import type { ApprovalRow } from './approval-row.ts'
import { grantOf } from './grants.ts'
import { rowsThatFit } from '../../actor/paging.ts'
import { mustRun } from '../runs/run.ts'

export function listApprovals(sql: Sql, runId: string | null): Approval[] {
  const from = 'approvals where ?1 is null or run_id = ?1'
  const query = { from, by: 'n desc', size: 'length(operation)', limit: 200 }
  return rowsThatFit<ApprovalRow>(sql, query, runId).map((row) => toApproval(sql, row))
}

export function toApproval(sql: Sql, row: ApprovalRow): Approval {
  const session = loadSession(sql)
  const operation = JSON.parse(row.operation) as unknown
  return {
    id: row.id as ApprovalId,
    runId: row.run_id as RunId,
    intent: cutIntent(mustRun(sql, row.run_id).intent),
    sessionId: session.id as SessionId,
    sessionTitle: session.title,
    project: session.project,
    kind: row.kind,
    state: row.state,
    asker: { kind: row.asker_kind, id: row.asker_id, owner: row.asker_owner },
    subject: row.subject,
    title: row.title,
    details: detailsOf(operation, requestOf(sql, row)),
    operation,
    operationHash: row.operation_hash,
    decisionSeq: row.decision_seq,
    reason: row.reason,
    rule: row.rule,
    policy: JSON.parse(row.policy) as Approval['policy'],
    group: keysOf(row.group_keys),
    quorum: row.quorum,
    escalatesAt: row.escalates_at,
    escalation: keysOf(row.escalation_keys),
    votes: votesOf(sql, row.id),
    resumable: row.resumable === 1,
    remembered: grantOf(sql, row.id),
    createdAt: row.created_at,
    deadlineAt: row.deadline_at,
    resolution:
      row.resolved_at === null
        ? null
        : {
            actor: row.actor ?? '',
            owner: row.actor_owner,
            reason: row.resolution_reason ?? '',
            at: row.resolved_at,
          },
  }
}

export const keysOf = (text: string | null): string[] | null =>
  text === null ? null : (JSON.parse(text) as string[])

export function votesOf(sql: Sql, approvalId: string): Approval['votes'] {
  return sql.all<Approval['votes'][number]>(
    'select key_id as keyId, owner, reason, at from votes where approval_id = ? order by at',
    approvalId,
  )
}

const maxIntent = 300
const cutIntent = (intent: string): string =>
  intent.length > maxIntent
    ? `${intent.slice(0, maxIntent - 1).replace(/[\ud800-\udbff]$/, '')}…`
    : intent

/** What was decided on, as the timeline has it. */
function requestOf(sql: Sql, row: ApprovalRow): PermissionRequest {
  const [entry] = sql.all<{ data: string }>(
    'select data from run_events where run_id = ? and seq = ?',
    row.run_id,
    row.decision_seq,
  )
  return (JSON.parse(entry?.data ?? '{}') as PermissionRecord).request
}
