import type { ApprovalState } from '../../contract/approval.ts'
import type { ApprovalId, RunId, SessionId } from '../../contract/ids.ts'
import type { Db } from '../ports.ts'

export interface InboxEntry {
  id: ApprovalId
  sessionId: SessionId
  runId: RunId
  kind: string
  state: ApprovalState
  title: string
  reason: string
  createdAt: number
  deadlineAt: number
  resolvedAt: number | null
  actor: string | null
}

export function listInbox(
  db: Db,
  organisationId: string,
  query: {
    state: ApprovalState
    limit: number
    after: { createdAt: number; id: string } | null
  },
): Promise<InboxEntry[]> {
  const { createdAt, id } = query.after ?? { createdAt: Number.MAX_SAFE_INTEGER, id: '' }
  return db.all<InboxEntry>(
    `select id, session_id as sessionId, run_id as runId, kind, state, title, reason, created_at as createdAt,
       deadline_at as deadlineAt, resolved_at as resolvedAt, actor
     from approvals where organisation_id = ? and state = ? and (created_at, id) < (?, ?)
     order by created_at desc, id desc limit ?`,
    organisationId,
    query.state,
    createdAt,
    id,
    query.limit,
  )
}
