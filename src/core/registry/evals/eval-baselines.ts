import { GateRule } from '../../../contract/eval-compare.ts'
import { AppError } from '../../../contract/error.ts'
import type { EvalBaseline } from '../../../contract/eval-run.ts'
import type { EvalRunId } from '../../../contract/ids.ts'
import type { Guarded, PromotionKind } from '../../../contract/promotion.ts'
import type { Crypto, Db } from '../../ports.ts'
import { auditValues, type Maker } from '../audit.ts'

interface Row {
  project: string
  dataset: string
  digest: string
  evalRunId: string
  target: string
  rule: string
  gates: string
  setBy: string
  setAt: number
}

const columns =
  'project, dataset, digest, eval_run_id as evalRunId, target, rule, gates, set_by as setBy, set_at as setAt'

/** Which run others of this suite are held against, by which rule, and what it guards. The newest word counts. */
export async function putEvalBaseline(
  db: Db,
  crypto: Pick<Crypto, 'random'>,
  { organisationId, maker }: { organisationId: string; maker: Maker },
  { project, dataset, digest, evalRunId, target, rule, gates, setBy, setAt }: EvalBaseline,
): Promise<void> {
  const deed = { organisationId, action: 'baseline.set', subject: evalRunId, maker } as const
  const detail = { project, dataset, target, rule, gates }
  await db.batch([
    {
      sql: `insert into eval_baselines (organisation_id, project, dataset, eval_run_id, target, rule, gates, digest, set_by, set_at)
        values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        on conflict (organisation_id, project, dataset) do update set eval_run_id = excluded.eval_run_id,
          target = excluded.target, rule = excluded.rule, gates = excluded.gates, digest = excluded.digest, set_by = excluded.set_by,
          set_at = excluded.set_at
        where (eval_run_id, target, rule, gates)
          <> (excluded.eval_run_id, excluded.target, excluded.rule, excluded.gates)`,
      values: [
        ...[organisationId, project, dataset, evalRunId, target],
        ...[JSON.stringify(rule), JSON.stringify(gates), digest, setBy, setAt],
      ],
    },
    {
      sql: `insert into audit (id, organisation_id, action, subject, actor, detail, created_at)
            select ?, ?, ?, ?, ?, ?, ? where changes() > 0`,
      values: auditValues(crypto, setAt, { ...deed, detail }),
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
    `select ${columns} from eval_baselines where organisation_id = ? and project = ? and dataset = ?`,
    organisationId,
    project,
    dataset,
  )
  return row ? baselineOf(row) : null
}

/** Those that guard the row. What is the whole organisation's (null) is guarded by every project that it is for. */
export async function findGuardBaselines(
  db: Db,
  organisationId: string,
  { project, kind, name }: { project: string | null; kind: PromotionKind; name: string },
): Promise<EvalBaseline[]> {
  const rows = await db.all<Row>(
    `select ${columns} from eval_baselines
     where organisation_id = ?1 and (?2 is null or project = ?2) and exists (
       select 1 from json_each(gates) as one where one.value ->> '$.kind' = ?3
         and coalesce(one.value ->> '$.name', ?4) = ?4)
     order by project, dataset`,
    organisationId,
    project,
    kind,
    name,
  )
  return rows.map(baselineOf)
}

const baselineOf = (row: Row): EvalBaseline => ({
  ...row,
  evalRunId: row.evalRunId as EvalRunId,
  rule: GateRule.parse(JSON.parse(row.rule)),
  gates: JSON.parse(row.gates) as Guarded[],
})

export const noEvalBaseline = (project: string, dataset: string): AppError =>
  new AppError('not_found', `There is no baseline of "${dataset}" in project "${project}"`)
