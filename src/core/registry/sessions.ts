import type { SessionRow, SessionStatus } from '../../contract/session.ts'
import type { Db } from '../ports.ts'
import { type ListCaller, limitValues } from './place.ts'

interface SessionFilter {
  project: string | null
  /** Null: all but the warm ones. */
  status: SessionStatus | null
  /** The last row of the page before. */
  before: { createdAt: number; id: string } | null
  limit: number
}

/** Newest first. From libSQL, so a session may appear here a moment after it was created. */
export async function listSessions(
  db: Db,
  caller: ListCaller,
  { project, status, before, limit }: SessionFilter,
): Promise<SessionRow[]> {
  const { projects, member } = limitValues(caller)
  return await db.all<SessionRow>(
    `select id, member_id as memberId, project, title, status, sandbox_state as sandboxState,
            created_at as createdAt, closed_at as closedAt
     from sessions
     where organisation_id = ?1
       and (?2 is null or project = ?2) and (case when ?3 is null then status <> 'warm' else status = ?3 end)
       and (?4 is null or project in (select value from json_each(?4))) and (?5 is null or member_id = ?5)
       and (created_at, id) < (?6, ?7)
     order by created_at desc, id desc limit ?8`,
    caller.organisationId,
    project,
    status,
    projects,
    member,
    before?.createdAt ?? Number.MAX_SAFE_INTEGER,
    before?.id ?? '',
    limit,
  )
}

export async function countOpenSessions(db: Db, organisationId: string): Promise<number> {
  const [row] = await db.all<{ open: number }>(
    `select count(*) as open from sessions where organisation_id = ? and status = 'open'`,
    organisationId,
  )
  return row?.open ?? 0
}
