import type { EvalRunRow } from '../../../contract/eval-run.ts'
import type { RegistryRevision } from '../../../contract/promotion.ts'
import type { Db } from '../../ports.ts'
import { type ListCaller, limitValues } from '../place.ts'

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

/** So many are looked at, newest first. */
const maxTriedRuns = 20

/**
 * The newest completed runs of this suite, with each target that had the revision in every attempt. In any project, since
 * another one is where what is not released yet can be tried.
 */
export async function findRunsThatTried(
  db: Db,
  caller: ListCaller,
  { dataset, digest }: { dataset: string; digest: string },
  { kind, sha256 }: Pick<RegistryRevision, 'kind' | 'sha256'>,
): Promise<{ evalRunId: string; target: string }[]> {
  const { projects, member } = limitValues(caller)
  return await db.all<{ evalRunId: string; target: string }>(
    `select eval_runs.id as evalRunId, one.value ->> '$.target' as target from eval_runs, json_each(tried) as one
     where organisation_id = ?1 and dataset = ?2 and digest = ?3 and status = 'completed'
       and one.value ->> '$.kind' = ?4 and one.value ->> '$.sha256' = ?5
       and (?6 is null or project in (select value from json_each(?6))) and (?7 is null or member_id = ?7)
     order by created_at desc, eval_runs.id desc, target limit ?8`,
    ...[caller.organisationId, dataset, digest, kind, sha256, projects, member, maxTriedRuns],
  )
}
