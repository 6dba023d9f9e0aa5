import { canonicalJson } from '../../../contract/canonical.ts'
import type { EvalCase } from '../../../contract/eval-suite.ts'
import type { RegistryRevision } from '../../../contract/promotion.ts'
import {
  conditionHash,
  conditionSettings,
  sessionMemorySetting,
  sessionModelSetting,
  type TargetConditions,
} from '../../evals/compare/conditions.ts'
import { evaluatorJudges } from '../../evals/evaluators/judges.ts'
import type { Sql } from '../../ports.ts'
import type { AttemptBeginning } from './ports.ts'
import { loadRecordedEvalTarget } from './record.ts'

/** Null: the run has no such target. */
export function targetConditions(sql: Sql, name: string): TargetConditions | null {
  const target = loadRecordedEvalTarget(sql, name)
  if (target === null) return null
  return {
    settings: {
      ...conditionSettings(target),
      ...judgeSettings(sql, target),
      cases: plannedHash(sql, name),
      ...beginnings(sql, name),
    },
    revisions: revisionsOf(sql, name),
  }
}

/** A suite may be run in part, or more often: then other results are compared. */
function plannedHash(sql: Sql, target: string): string {
  const rows = sql.all<{ id: string; repetitions: number }>(
    `select case_id as id, count(*) as repetitions from attempts where target = ? group by case_id order by case_id`,
    target,
  )
  return conditionHash(rows)
}

/** Those that judge its answers: its own judge, and those that evaluators name. */
function judgeSettings(
  sql: Sql,
  { name, judgeTarget }: { name: string; judgeTarget?: string | undefined },
): Record<string, unknown> {
  const bodies = sql.all<{ body: string }>(
    'select body from cases where id in (select case_id from attempts where target = ?)',
    name,
  )
  const named = bodies.flatMap(({ body }) =>
    (JSON.parse(body) as EvalCase).evaluators.flatMap(evaluatorJudges),
  )
  const settings = (judge: string) => {
    const found = loadRecordedEvalTarget(sql, judge)
    return found && conditionSettings(found)
  }
  return Object.fromEntries([
    ...(judgeTarget === undefined ? [] : [['judge', settings(judgeTarget)]]),
    ...[...new Set(named)].map((judge) => [`judge "${judge}"`, settings(judge)]),
  ])
}

/** Absent: no session has begun, or before runs told it. */
function beginnings(sql: Sql, target: string): Record<string, unknown> {
  const begun = sql
    .all<{ began: string }>(
      'select distinct began from attempts where target = ? and began is not null',
      target,
    )
    .map(({ began }) => JSON.parse(began) as AttemptBeginning)
  if (begun.length === 0) return {}
  const models = new Set(begun.map(({ model }) => model))
  const memories = new Set(begun.map((one) => canonicalJson(one.memories)))
  return {
    [sessionModelSetting]: [...models].toSorted().join(', '),
    [sessionMemorySetting]: conditionHash([...memories].toSorted()),
  }
}

function revisionsOf(sql: Sql, target: string): RegistryRevision[] {
  return sql.all<RegistryRevision>(
    `select distinct one.value ->> '$.kind' as kind, one.value ->> '$.name' as name, one.value ->> '$.sha256' as sha256
     from attempts, json_each(tried) as one where target = ? order by 1, 2, 3`,
    target,
  )
}
