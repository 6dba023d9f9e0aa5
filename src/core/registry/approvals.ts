import { approvalAnswer, type ApprovalState, type InboxEntry } from '../../contract/approval.ts'
import type { Db } from '../ports.ts'
import { type ListCaller, limitValues } from './place.ts'

/** The inbox: the approvals of all sessions of an organisation, from libSQL. An approval may appear here a moment late. */

interface InboxRow extends Omit<
  InboxEntry,
  'asker' | 'details' | 'policy' | 'secondsLeft' | 'answer'
> {
  asker: InboxEntry['asker']['kind']
  askerId: string | null
  askerOwner: string | null
  details: string | null
  policy: string | null
}

/** How much of the run's intent is shown. */
const maxIntent = 300

export async function listApprovalInbox(
  db: Db,
  caller: ListCaller,
  query: {
    state: ApprovalState
    limit: number
    after: { createdAt: number; id: string } | null
    now: number
    publicUrl: string
  },
): Promise<InboxEntry[]> {
  const { createdAt, id } = query.after ?? { createdAt: Number.MAX_SAFE_INTEGER, id: '' }
  const { projects, member } = limitValues(caller)
  const rows = await db.all<InboxRow>(
    `select a.id, a.session_id as sessionId, s.title as sessionTitle, s.project, a.run_id as runId,
       substr(r.intent, 1, ${maxIntent}) as intent, a.kind, a.state, a.title, a.details, a.asker, a.asker_id as askerId,
       a.asker_owner as askerOwner, a.reason, a.rule, a.policy, a.operation_hash as operationHash, a.quorum,
       a.created_at as createdAt, a.deadline_at as deadlineAt, a.resolved_at as resolvedAt, a.actor
     from approvals a left join sessions s on s.id = a.session_id left join runs r on r.id = a.run_id
     where a.organisation_id = ?1 and a.state = ?2 and (a.created_at, a.id) < (?3, ?4)
       and (?6 is null or s.project in (select value from json_each(?6))) and (?7 is null or s.member_id = ?7)
     order by a.created_at desc, a.id desc limit ?5`,
    caller.organisationId,
    query.state,
    createdAt,
    id,
    query.limit,
    projects,
    member,
  )
  return rows.map((row) => entryOf(row, query.now, query.publicUrl))
}

function entryOf(row: InboxRow, now: number, publicUrl: string): InboxEntry {
  const { asker: kind, askerId, askerOwner, details, policy, ...entry } = row
  return {
    ...entry,
    asker: { kind, id: askerId, owner: askerOwner },
    details: details === null ? null : (JSON.parse(details) as InboxEntry['details']),
    policy: policy === null ? null : (JSON.parse(policy) as InboxEntry['policy']),
    ...approvalAnswer(now, publicUrl, row),
  }
}
