import type { EvalRunRow } from '../../contract/eval-run.ts'
import type { Db } from '../ports.ts'
import { type ListCaller, limitValues } from './place.ts'

interface EvalRunFilter {
  project: string | null
  dataset: string | null
  /** The last row of the page before. */
  before: { createdAt: number; id: string } | null
  limit: number
}

type Row = Omit<EvalRunRow, 'targets'> & { targets: string }

/** Newest first. From libSQL, so a run may appear here a moment after it was created. */
export async function listEvalRuns(
  db: Db,
  caller: ListCaller,
  { project, dataset, before, limit }: EvalRunFilter,
): Promise<EvalRunRow[]> {
  const { projects, member } = limitValues(caller)
  const rows = await db.all<Row>(
    `select id, member_id as memberId, project, dataset, digest, targets, status, reason, attempts, passed, errors, score,
            hash, created_at as createdAt, ended_at as endedAt
     from eval_runs
     where organisation_id = ?1
       and (?2 is null or project = ?2) and (?3 is null or dataset = ?3)
       and (?4 is null or project in (select value from json_each(?4))) and (?5 is null or member_id = ?5)
       and (created_at, id) < (?6, ?7)
     order by created_at desc, id desc limit ?8`,
    caller.organisationId,
    project,
    dataset,
    projects,
    member,
    before?.createdAt ?? Number.MAX_SAFE_INTEGER,
    before?.id ?? '',
    limit,
  )
  return rows.map((row) => ({ ...row, targets: JSON.parse(row.targets) as string[] }))
}
