import type { SessionRow, SessionStatus } from '../../contract/session.ts'
import type { Db } from '../ports.ts'

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
  organisationId: string,
  { project, status, before, limit }: SessionFilter,
): Promise<SessionRow[]> {
  return await db.all<SessionRow>(
    `select id, project, title, status, sandbox_state as sandboxState,
            created_at as createdAt, closed_at as closedAt
     from sessions
     where organisation_id = ?
       and (? is null or project = ?) and (case when ? is null then status <> 'warm' else status = ? end)
       and (created_at, id) < (?, ?)
     order by created_at desc, id desc limit ?`,
    organisationId,
    project,
    project,
    status,
    status,
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
