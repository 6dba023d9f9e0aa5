import { GateRule } from '../../contract/eval-compare.ts'
import { AppError } from '../../contract/error.ts'
import type { EvalBaseline } from '../../contract/eval-run.ts'
import type { EvalRunId } from '../../contract/ids.ts'
import type { Db } from '../ports.ts'

interface Row {
  project: string
  dataset: string
  evalRunId: string
  target: string
  rule: string
  setBy: string
  setAt: number
}

/** Which run others of this suite are held against, and by which rule. The newest word counts. */
export async function putEvalBaseline(
  db: Db,
  organisationId: string,
  { project, dataset, evalRunId, target, rule, setBy, setAt }: EvalBaseline,
): Promise<void> {
  await db.batch([
    {
      sql: `insert into eval_baselines (organisation_id, project, dataset, eval_run_id, target, rule, gates, set_by, set_at)
        values (?, ?, ?, ?, ?, ?, '[]', ?, ?)
        on conflict (organisation_id, project, dataset) do update set eval_run_id = excluded.eval_run_id,
          target = excluded.target, rule = excluded.rule, set_by = excluded.set_by, set_at = excluded.set_at`,
      values: [
        organisationId,
        project,
        dataset,
        evalRunId,
        target,
        JSON.stringify(rule),
        setBy,
        setAt,
      ],
    },
  ])
}

export async function findEvalBaseline(
  db: Db,
  organisationId: string,
  project: string,
  dataset: string,
): Promise<EvalBaseline | null> {
  const [row] = await db.all<Row>(
    `select project, dataset, eval_run_id as evalRunId, target, rule, set_by as setBy, set_at as setAt
     from eval_baselines where organisation_id = ? and project = ? and dataset = ?`,
    organisationId,
    project,
    dataset,
  )
  if (!row) return null
  return {
    ...row,
    evalRunId: row.evalRunId as EvalRunId,
    rule: GateRule.parse(JSON.parse(row.rule)),
  }
}

export const noEvalBaseline = (project: string, dataset: string): AppError =>
  new AppError('not_found', `There is no baseline of "${dataset}" in project "${project}"`)
