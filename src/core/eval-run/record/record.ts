import type { EvalCase, EvalProblem } from '../../../contract/eval-suite.ts'
import type { EvalRunBudget, EvalRunStatus } from '../../../contract/eval-run.ts'
import type { Target } from '../../../contract/eval-target.ts'
import type { Sql } from '../../ports.ts'
import type { RunCaller } from './ports.ts'

/** What a run is made from: everything is read and decided, so that it needs no file any more. */
export interface NewEvalRun {
  id: string
  caller: RunCaller
  project: string
  dataset: string
  digest: string
  /** Those that are run; the others only judge. */
  runTargets: string[]
  targets: Target[]
  cases: EvalCase[]
  /** Of the suite, but not asked for. */
  leftOut: LeftOutCase[]
  attempts: { caseId: string; target: string; repetition: number }[]
  problems: EvalProblem[]
  workers: number
  budget: EvalRunBudget
  streamLogs: boolean
  verbose: boolean
}

/** Without a target it is for all of them. */
export type LeftOutCase = Pick<EvalCase, 'id' | 'required' | 'target'>

export interface EvalRunRecord {
  id: string
  organisationId: string
  project: string
  dataset: string
  digest: string
  caller: RunCaller
  memberId: string | null
  workers: number
  budget: EvalRunBudget
  streamLogs: boolean
  verbose: boolean
  problems: EvalProblem[]
  /** erased: being deleted; to callers it is already gone. */
  status: EvalRunStatus | 'erased'
  reason: string | null
  hash: string | null
  createdAt: number
  endedAt: number | null
}

interface RunRow {
  id: string
  organisation_id: string
  project: string
  dataset: string
  digest: string
  caller: string
  member_id: string | null
  workers: number
  budget: string
  stream_logs: number
  verbose: number
  problems: string
  status: EvalRunRecord['status']
  reason: string | null
  hash: string | null
  created_at: number
  ended_at: number | null
}

export function insertEvalRunRecord(sql: Sql, now: number, plan: NewEvalRun): void {
  const { caller } = plan
  sql.run(
    `insert into eval_run (id, organisation_id, project, dataset, digest, caller, member_id, workers, budget, stream_logs,
       verbose, problems, status, created_at)
     values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'running', ?)`,
    plan.id,
    caller.organisationId,
    plan.project,
    plan.dataset,
    plan.digest,
    JSON.stringify(caller),
    caller.memberId,
    plan.workers,
    JSON.stringify(plan.budget),
    plan.streamLogs ? 1 : 0,
    plan.verbose ? 1 : 0,
    JSON.stringify(plan.problems),
    now,
  )
  for (const target of plan.targets)
    sql.run(
      'insert into targets (name, is_run, body) values (?, ?, ?)',
      target.name,
      plan.runTargets.includes(target.name) ? 1 : 0,
      JSON.stringify(target),
    )
  for (const one of [...plan.cases, ...plan.leftOut])
    sql.run('insert into cases (id, body) values (?, ?)', one.id, JSON.stringify(one))
  for (const { caseId, target, repetition } of plan.attempts)
    sql.run(
      'insert into attempts (case_id, target, repetition) values (?, ?, ?)',
      caseId,
      target,
      repetition,
    )
}

export function loadEvalRunRecord(sql: Sql): EvalRunRecord {
  const [row] = sql.all<RunRow>('select * from eval_run')
  if (!row) throw new Error('The run has no row')
  return {
    id: row.id,
    organisationId: row.organisation_id,
    project: row.project,
    dataset: row.dataset,
    digest: row.digest,
    caller: JSON.parse(row.caller) as RunCaller,
    memberId: row.member_id,
    workers: row.workers,
    budget: JSON.parse(row.budget) as EvalRunBudget,
    streamLogs: row.stream_logs === 1,
    verbose: row.verbose === 1,
    problems: JSON.parse(row.problems) as EvalProblem[],
    status: row.status,
    reason: row.reason,
    hash: row.hash,
    createdAt: row.created_at,
    endedAt: row.ended_at,
  }
}

export function recordedEvalTargets(sql: Sql): string[] {
  return sql
    .all<{ name: string }>('select name from targets where is_run = 1 order by n')
    .map(({ name }) => name)
}

export function loadRecordedEvalTarget(sql: Sql, name: string): Target | null {
  const [row] = sql.all<{ body: string }>('select body from targets where name = ?', name)
  return row ? (JSON.parse(row.body) as Target) : null
}

/** They have no attempt; runs from before this was kept have none. */
export const leftOutEvalCases = (sql: Sql): LeftOutCase[] =>
  sql
    .all<{ body: string }>(
      'select body from cases where id not in (select case_id from attempts) order by rowid',
    )
    .map(({ body }) => JSON.parse(body) as LeftOutCase)

export function loadRecordedEvalCase(sql: Sql, id: string): EvalCase {
  const [row] = sql.all<{ body: string }>('select body from cases where id = ?', id)
  if (!row) throw new Error(`The run has no case "${id}"`)
  return JSON.parse(row.body) as EvalCase
}
