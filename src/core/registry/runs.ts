import type { RunStatus, RunSummary } from '../../contract/run.ts'
import type { Db } from '../ports.ts'
import { type ListCaller, limitValues } from './place.ts'

interface RunFilter {
  status: RunStatus | null
  project: string | null
  sessionId: string | null
  agent: string | null
  /** Created at this time or later. */
  since: number | null
  /** The last row of the page before. */
  before: { createdAt: number; id: string } | null
  limit: number
}

/** Of all sessions, newest first. From libSQL, so a run may appear here a moment after it was created. */
export async function listAllRuns(
  db: Db,
  caller: ListCaller,
  { status, project, sessionId, agent, since, before, limit }: RunFilter,
): Promise<RunSummary[]> {
  const { projects, member } = limitValues(caller)
  return await db.all<RunSummary>(
    `select id, session_id as sessionId, organisation_id as organisationId, project, intent, workflow, phase, agent,
            subagent, adapter, model, status, outcome, reason, latest_checkpoint_id as latestCheckpointId,
            created_at as createdAt, updated_at as updatedAt, completed_at as completedAt
     from runs
     where organisation_id = ?1
       and (?2 is null or status = ?2) and (?3 is null or project = ?3) and (?4 is null or session_id = ?4)
       and (?5 is null or agent = ?5) and created_at >= ?6 and (created_at, id) < (?7, ?8)
       and (?10 is null or project in (select value from json_each(?10)))
       and (?11 is null or session_id in (select id from sessions where organisation_id = ?1 and member_id = ?11))
     order by created_at desc, id desc limit ?9`,
    caller.organisationId,
    status,
    project,
    sessionId,
    agent,
    since ?? 0,
    before?.createdAt ?? Number.MAX_SAFE_INTEGER,
    before?.id ?? '',
    limit,
    projects,
    member,
  )
}
