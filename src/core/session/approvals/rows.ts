import {
  approvalAnswer,
  type Approval,
  type ApprovalResolve,
  type ApprovalState,
} from '../../../contract/approval.ts'
import type { ApprovalTerms } from '../../../contract/policy.ts'
import { AppError } from '../../../contract/error.ts'
import type { ApprovalId, RunId, SessionId } from '../../../contract/ids.ts'
import type { PermissionRecord } from '../../../contract/permission-record.ts'
import type { PermissionRequest } from '../../../contract/permission.ts'
import { clearDeadline, setDeadline } from '../../actor/deadlines.ts'
import { addToOutbox } from '../../actor/outbox.ts'
import type { Sql } from '../../ports.ts'
import { hideSecretLike } from '../../redaction/redaction.ts'
import { appendEvent } from '../log/events.ts'
import { addDelivery } from '../webhooks/deliveries.ts'
import { approvalDetails, approvalTitle } from './details.ts'
import { grantOf } from './grants.ts'
import { pageThatFits } from '../../actor/paging.ts'
import { loadSession } from '../record/record.ts'
import { mustRun, recordOnRun } from '../runs/rows.ts'
import { endRunWait, addRunWait } from '../runs/waits.ts'

export interface ApprovalRow {
  n: number
  id: string
  run_id: string
  kind: Approval['kind']
  state: ApprovalState
  asker_kind: 'sandbox' | 'ability' | 'key'
  asker_id: string
  asker_owner: string | null
  asker_counts_as: string | null
  subject: string
  title: string
  operation: string
  operation_hash: string
  decision_seq: number
  reason: string
  rule: string
  policy: string
  group_keys: string | null
  quorum: number
  escalates_at: number | null
  escalation_keys: string | null
  escalated: number
  resumable: number
  created_at: number
  deadline_at: number
  resolved_at: number | null
  actor: string | null
  actor_owner: string | null
  actor_member: string | null
  resolution_reason: string | null
  /** Of those that an ability offers, the one that a person has chosen. */
  option: string | null
}

/** Who wants to know. */
export interface ApprovalAsker {
  kind: 'sandbox' | 'ability' | 'key'
  id: string
  owner: string | null
  countsAs?: string | null
}

export interface NewApproval {
  id: string
  runId: string
  kind: Approval['kind']
  asker: ApprovalAsker
  subject: string
  title: string
  operation: unknown
  operationHash: string
  decisionSeq: number
  /** With what it was made on. */
  decision: PermissionRecord
  terms: ApprovalTerms
  resumable: boolean
}

/** The run needs a person from now on. */
export function openApproval(sql: Sql, now: number, approval: NewApproval): ApprovalRow {
  const row = insertApproval(sql, now, approval)
  recordOnRun(sql, now, row.run_id, 'permission.requested', {
    approvalId: row.id,
    title: row.title,
    operationHash: row.operation_hash,
    decisionSeq: row.decision_seq,
    deadlineAt: row.deadline_at,
  })
  addRunWait(sql, now, row.run_id, row.id, `Approval needed: ${row.title}`)
  appendEvent(sql, now, 'approval.requested', {
    approvalId: row.id,
    runId: row.run_id,
    title: row.title,
    deadlineAt: row.deadline_at,
  })
  tellWebhooks(sql, now, row)
  projectApproval(sql, now, row.id)
  armApprovals(sql)
  return row
}

/** Nobody is asked: it is answered in the commit that asks, and only recorded. */
export function recordAnsweredApproval(
  sql: Sql,
  now: number,
  approval: NewApproval,
  resolution: Resolution,
): ApprovalRow {
  const { id } = insertApproval(sql, now, approval)
  return settleApproval(sql, now, id, resolution) as ApprovalRow
}

function insertApproval(sql: Sql, now: number, approval: NewApproval): ApprovalRow {
  const { asker, decision, terms } = approval
  const escalatesAt = terms.escalate && now + terms.escalate.afterSeconds * 1000
  sql.run(
    `insert into approvals (id, run_id, kind, state, asker_kind, asker_id, asker_owner, subject, title, operation,
       operation_hash, decision_seq, reason, rule, policy, group_keys, quorum, escalates_at, escalation_keys, resumable,
       created_at, deadline_at, asker_counts_as)
     values (?, ?, ?, 'pending', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    approval.id,
    approval.runId,
    approval.kind,
    asker.kind,
    asker.id,
    asker.owner,
    approval.subject,
    approvalTitle(approval.title, decision.request),
    JSON.stringify(hideSecretLike(approval.operation ?? null)),
    approval.operationHash,
    approval.decisionSeq,
    decision.reason,
    decision.rule,
    JSON.stringify(decision.policy),
    terms.group && JSON.stringify(terms.group),
    terms.quorum,
    escalatesAt,
    terms.escalate && JSON.stringify(terms.escalate.group),
    approval.resumable ? 1 : 0,
    now,
    now + terms.timeoutSeconds * 1000,
    asker.countsAs ?? null,
  )
  return mustApproval(sql, approval.id)
}

/** Nobody watches a stream for ten minutes. Everything that a person decides on goes along, and where to answer. */
function tellWebhooks(sql: Sql, now: number, row: ApprovalRow): void {
  const { operation: _, id: approvalId, runId, ...approval } = toApproval(sql, row)
  const data = {
    approvalId,
    ...approval,
    ...approvalAnswer(now, '', { id: approvalId, ...approval }),
  }
  addDelivery(sql, now, { event: 'approval.requested', runId, data })
}

interface Resolution {
  state: Exclude<ApprovalState, 'pending'>
  actor: string
  owner: string | null
  memberId?: string
  reason: string
  option?: string | null
  remember?: ApprovalResolve['remember'] | null
}

/** Once: null if it was resolved before. */
export function settleApproval(
  sql: Sql,
  now: number,
  id: string,
  resolution: Resolution,
): ApprovalRow | null {
  const row = mustApproval(sql, id)
  if (row.state !== 'pending') return null
  const { state, actor, owner, memberId = null, reason } = resolution
  sql.run(
    `update approvals set state = ?, actor = ?, actor_owner = ?, actor_member = ?, resolution_reason = ?, resolved_at = ?,
       option = ? where n = ?`,
    state,
    actor,
    owner,
    memberId,
    reason,
    now,
    resolution.option ?? null,
    row.n,
  )
  const kind = state === 'approved' ? 'permission.approved' : 'permission.denied'
  const votes = approvalVotes(sql, id).map(({ keyId, owner: voter }) => ({ keyId, owner: voter }))
  const { remember = null } = resolution
  recordOnRun(sql, now, row.run_id, kind, {
    approvalId: id,
    state,
    actor,
    owner,
    reason,
    votes,
    remember,
  })
  endRunWait(sql, now, row.run_id, id, `${row.title} was ${state}`)
  appendEvent(sql, now, 'approval.resolved', { approvalId: id, runId: row.run_id, state, actor })
  projectApproval(sql, now, id)
  armApprovals(sql)
  return mustApproval(sql, id)
}

export function overdueApprovals(sql: Sql, now: number): ApprovalRow[] {
  return sql.all<ApprovalRow>(
    `select * from approvals where state = 'pending' and deadline_at <= ? order by n`,
    now,
  )
}

/** From now on the second group may resolve it as well. */
export function escalateApprovals(sql: Sql, now: number): void {
  const due = sql.all<ApprovalRow>(
    `select * from approvals where state = 'pending' and escalated = 0 and escalates_at <= ? order by n`,
    now,
  )
  for (const row of due) {
    sql.run('update approvals set escalated = 1 where n = ?', row.n)
    const { id: approvalId, run_id: runId, title, deadline_at: deadlineAt } = row
    recordOnRun(sql, now, runId, 'permission.requested', { approvalId, title, escalated: true })
    appendEvent(sql, now, 'approval.requested', { approvalId, runId, title, deadlineAt })
    tellWebhooks(sql, now, row)
  }
  armApprovals(sql)
}

export function pendingApprovalsOfRun(sql: Sql, runId: string): ApprovalRow[] {
  return sql.all<ApprovalRow>(
    `select * from approvals where run_id = ? and state = 'pending' order by n`,
    runId,
  )
}

export function pendingApproval(sql: Sql, subject: string): ApprovalRow | undefined {
  return sql.all<ApprovalRow>(
    `select * from approvals where subject = ? and state = 'pending'`,
    subject,
  )[0]
}

/** The next moment at which time alone resolves one. */
function armApprovals(sql: Sql): void {
  const at = sql.all<{ at: number | null }>(
    `select min(case when escalated = 0 then min(deadline_at, coalesce(escalates_at, deadline_at))
       else deadline_at end) as at from approvals where state = 'pending'`,
  )[0]?.at
  if (at === null || at === undefined) clearDeadline(sql, 'approval')
  else setDeadline(sql, 'approval', at)
}

export function mustApproval(sql: Sql, id: string): ApprovalRow {
  const row = sql.all<ApprovalRow>('select * from approvals where id = ?', id)[0]
  if (!row) throw new AppError('not_found', `No such approval: "${id}"`)
  return row
}

export function projectApproval(sql: Sql, now: number, id: string): void {
  const approval = toApproval(sql, mustApproval(sql, id))
  addToOutbox(sql, now, 'approval', {
    id,
    runId: approval.runId,
    kind: approval.kind,
    state: approval.state,
    title: approval.title,
    asker: approval.asker.kind,
    askerId: approval.asker.id,
    askerOwner: approval.asker.owner,
    details: approval.details,
    policy: approval.policy,
    reason: approval.reason,
    rule: approval.rule,
    operationHash: approval.operationHash,
    quorum: approval.quorum,
    createdAt: approval.createdAt,
    deadlineAt: approval.deadlineAt,
    resolvedAt: approval.resolution?.at ?? null,
    actor: approval.resolution?.actor ?? null,
    resolutionReason: approval.resolution?.reason ?? null,
  })
}

export function listApprovals(sql: Sql, runId: string | null): Approval[] {
  const from = 'approvals where ?1 is null or run_id = ?1'
  const query = { from, by: 'n desc', size: 'length(operation)', limit: 200 }
  return pageThatFits<ApprovalRow>(sql, query, runId).map((row) => toApproval(sql, row))
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
    details: approvalDetails(operation, requestOf(sql, row)),
    operation,
    operationHash: row.operation_hash,
    decisionSeq: row.decision_seq,
    reason: row.reason,
    rule: row.rule,
    policy: JSON.parse(row.policy) as Approval['policy'],
    group: namesOf(row.group_keys),
    quorum: row.quorum,
    escalatesAt: row.escalates_at,
    escalation: namesOf(row.escalation_keys),
    votes: approvalVotes(sql, row.id),
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
            ...(row.option === null ? {} : { option: row.option }),
          },
  }
}

/** Of a group: members and keys, by their ids. */
export const namesOf = (text: string | null): string[] | null =>
  text === null ? null : (JSON.parse(text) as string[])

export const isInGroup = (
  group: readonly string[],
  { keyId, memberId }: { keyId: string; memberId: string | null },
): boolean => group.includes(keyId) || (memberId !== null && group.includes(memberId))

export function approvalVotes(sql: Sql, approvalId: string): Approval['votes'] {
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
