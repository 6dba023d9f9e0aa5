import type { AbilityStep } from '../../../contract/ability.ts'
import type { StepState } from '../../../contract/execution.ts'
import type { Ability } from '../../abilities/definition.ts'
import {
  type ExecutionCause,
  type ExecutionState,
  hasStepEnded,
  nextExecutionState,
  nextStepState,
  type Part,
  type StepCause,
} from '../../abilities/engine.ts'
import { orderStepGraph } from '../../abilities/graph.ts'
import type { Sql } from '../../ports.ts'
import { appendEvent } from '../log/events.ts'
import { recordOnRun } from '../runs/rows.ts'

/**
 * The rows of executions: which abilities are at work, and how each of their steps stands. A step and an execution change
 * only by a cause that means something in their state, so news that comes late or twice changes nothing. The room of
 * abilities writes them; turns and the gate read what is at work (`active.ts`).
 */

/** Who began it: a key, or the model by its tool. */
export type Starter =
  | {
      kind: 'key'
      keyId: string
      memberId: string
      owner: string
      countsAs: { memberId: string; owner: string } | null
    }
  | { kind: 'sandbox'; generation: number }

export interface ExecutionRow {
  n: number
  id: string
  ability: string
  hash: string
  version: number | null
  parent_id: string | null
  parent_step: string | null
  run_id: string
  state: ExecutionState
  starter: string
  inputs: string
  /** {{input}}: those of whoever asked. */
  words: string
  plan_hash: string
  plan_approval_id: string | null
  error: string | null
  deadline_at: number | null
  started_at: number
  ended_at: number | null
  /** By name, the hashes of those that its workflow steps may call. */
  nested: string
}

export interface StepRow {
  execution_id: string
  position: number
  id: string
  part: Part
  type: AbilityStep['type']
  state: StepState
  tries: number
  nudges: number
  /** The operation, turn, approval or execution that does it. */
  subject: string | null
  output: string | null
  error: string | null
  exit_code: number | null
  stops: number
  deadline_at: number | null
  started_at: number | null
  /** Its time counts anew since then: the machine was suspended. */
  renewed_at: number | null
  ended_at: number | null
}

/** An ability as it was when the execution began. */
export interface AbilityCopy {
  name: string
  version: number | null
  hash: string
  definition: Ability
  /** Paths of its folder. */
  files: readonly string[]
}

export type NewExecution = Omit<ExecutionRow, 'n' | 'error' | 'ended_at' | 'plan_approval_id'>

export function insertExecution(sql: Sql, now: number, row: NewExecution, ability: Ability): void {
  sql.run(
    `insert into executions (id, ability, hash, version, parent_id, parent_step, run_id, state, starter, inputs, words,
       plan_hash, deadline_at, started_at, nested) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ...[row.id, row.ability, row.hash, row.version, row.parent_id, row.parent_step, row.run_id],
    ...[row.state, row.starter, row.inputs, row.words, row.plan_hash, row.deadline_at],
    ...[row.started_at, row.nested],
  )
  for (const [position, { id, part, type }] of executionStepsOf(ability).entries())
    sql.run(
      'insert into execution_steps (execution_id, position, id, part, type) values (?, ?, ?, ?, ?)',
      ...[row.id, position, id, part, type],
    )
  const { id: executionId, ability: name, parent_id: parentId, run_id: runId } = row
  const told = { executionId, ability: name, parentId, runId }
  appendEvent(sql, now, 'ability.started', told)
  recordOnRun(sql, now, runId, 'ability.started', {
    ...told,
    hash: row.hash,
    planHash: row.plan_hash,
  })
}

/** In the order in which they run one after the other. */
export function executionStepsOf({
  hooks,
  steps,
}: Ability): Pick<StepRow, 'id' | 'part' | 'type'>[] {
  const hooksOf = (part: 'before' | 'after') =>
    hooks[part].map((_, at) => ({ id: `hooks.${part}.${at}`, part, type: 'script' as const }))
  const ordered = orderStepGraph(steps) ?? steps
  return [
    ...hooksOf('before'),
    ...ordered.map(({ id, type }) => ({ id, part: 'step' as const, type })),
    ...hooksOf('after'),
  ]
}

export function saveExecutionCopy(sql: Sql, now: number, copy: AbilityCopy): void {
  sql.run(
    'insert or ignore into ability_copies values (?, ?, ?, ?, ?, ?)',
    ...[copy.hash, copy.name, copy.version],
    ...[JSON.stringify(copy.definition), JSON.stringify(copy.files), now],
  )
}

export function findExecutionCopy(sql: Sql, hash: string, name: string): AbilityCopy | null {
  const [row] = sql.all<{ version: number | null; definition: string; files: string }>(
    'select version, definition, files from ability_copies where hash = ? and name = ?',
    hash,
    name,
  )
  if (!row) return null
  const { version } = row
  const definition = JSON.parse(row.definition) as Ability
  return { name, hash, version, definition, files: JSON.parse(row.files) as string[] }
}

export const hasExecutionCopy = (sql: Sql, hash: string): boolean =>
  sql.all('select 1 from ability_copies where hash = ? limit 1', hash).length > 0

const open = `state in ('planned', 'running')`

/** Oldest first: what has no parent comes before its children. */
export const openExecutions = (sql: Sql): ExecutionRow[] =>
  sql.all<ExecutionRow>(`select * from executions where ${open} order by n`)

/** The one that has no parent, if one is at work. */
export const activeExecution = (sql: Sql): ExecutionRow | undefined =>
  sql.all<ExecutionRow>(`select * from executions where ${open} and parent_id is null limit 1`)[0]

export const findExecution = (sql: Sql, id: string): ExecutionRow | undefined =>
  sql.all<ExecutionRow>('select * from executions where id = ?', id)[0]

export const childExecutions = (sql: Sql, id: string): ExecutionRow[] =>
  sql.all<ExecutionRow>(`select * from executions where parent_id = ? and ${open} order by n`, id)

export const executionSteps = (sql: Sql, executionId: string): StepRow[] =>
  sql.all<StepRow>(
    'select * from execution_steps where execution_id = ? order by position',
    executionId,
  )

export const movingExecutionSteps = (sql: Sql, executionId: string): StepRow[] =>
  sql.all<StepRow>(
    `select * from execution_steps where execution_id = ? and state in ('running', 'asking') order by position`,
    executionId,
  )

type StepChange = Partial<
  Pick<StepRow, 'output' | 'error' | 'exit_code' | 'subject' | 'deadline_at' | 'nudges'>
>

/** An execution inside a commit, with all its steps as they stand. */
export interface StepPlace {
  sql: Sql
  now: number
  execution: ExecutionRow
  steps: readonly StepRow[]
}

/** False where the cause means nothing in this state. The row is changed with it. */
export function changeExecutionStep(
  place: StepPlace,
  step: StepRow,
  cause: StepCause,
  change: StepChange = {},
): boolean {
  if (!applyToExecutionStep(place.now, step, cause, change)) return false
  saveExecutionStep(place.sql, step)
  tellExecutionStep(place, step)
  return true
}

/** Only the row: whoever has more to say saves and tells it. */
export function applyToExecutionStep(
  now: number,
  step: StepRow,
  cause: StepCause,
  change: StepChange = {},
): boolean {
  const state = nextStepState(step.state, cause)
  if (state === null) return false
  const begins = cause === 'start'
  const ends = hasStepEnded(state)
  Object.assign(step, change, { state })
  step.tries += begins ? 1 : 0
  step.stops = cause === 'stop' || cause === 'answer.stop' ? 1 : step.stops
  if (begins) Object.assign(step, { started_at: now, renewed_at: null })
  if (ends) step.ended_at = now
  if (state !== 'running') step.deadline_at = null
  return true
}

export function saveExecutionStep(sql: Sql, step: StepRow): void {
  sql.run(
    `update execution_steps set state = ?, tries = ?, nudges = ?, subject = ?, output = ?, error = ?, exit_code = ?,
       stops = ?, deadline_at = ?, started_at = ?, renewed_at = ?, ended_at = ? where execution_id = ? and position = ?`,
    ...[step.state, step.tries, step.nudges, step.subject, step.output, step.error],
    ...[step.exit_code, step.stops, step.deadline_at, step.started_at, step.renewed_at],
    ...[step.ended_at, step.execution_id, step.position],
  )
}

/** In the timeline and the log only what a step became; what it printed is read with the execution. */
export function tellExecutionStep({ sql, now, execution, steps }: StepPlace, step: StepRow): void {
  const { id: stepId, state, subject, tries, exit_code: exitCode } = step
  if (state === 'pending') return
  const error = step.error === null ? null : step.error.slice(0, 2000).toWellFormed()
  const progress = progressOf(steps)
  const told = { executionId: execution.id, stepId, status: state, error, progress }
  appendEvent(sql, now, 'ability.step', told)
  recordOnRun(sql, now, execution.run_id, 'ability.step', { ...told, subject, tries, exitCode })
}

/** Such as 2/5: hooks are not counted. */
export function executionProgress(sql: Sql, executionId: string): string {
  const [row] = sql.all<{ ended: number; count: number }>(
    `select count(*) as count, coalesce(sum(state in ('completed', 'failed', 'skipped')), 0) as ended
     from execution_steps where execution_id = ? and part = 'step'`,
    executionId,
  )
  return `${row?.ended ?? 0}/${row?.count ?? 0}`
}

function progressOf(steps: readonly StepRow[]): string {
  let [ended, count] = [0, 0]
  for (const { part, state } of steps) {
    if (part !== 'step') continue
    count += 1
    if (hasStepEnded(state)) ended += 1
  }
  return `${ended}/${count}`
}

/** False where the cause means nothing in this state. */
export function changeExecution(
  sql: Sql,
  now: number,
  execution: ExecutionRow,
  cause: ExecutionCause,
  error: string | null = null,
): boolean {
  const state = nextExecutionState(execution.state, cause)
  if (state === null) return false
  execution.state = state
  execution.error = error
  const isOver = state !== 'running' && state !== 'planned'
  execution.ended_at = isOver ? now : null
  sql.run(
    'update executions set state = ?, error = ?, ended_at = ? where n = ?',
    ...[state, error, execution.ended_at, execution.n],
  )
  if (state === 'running' || state === 'planned') return true
  const { id: executionId, ability, run_id: runId } = execution
  const told = { executionId, ability, status: state, error }
  appendEvent(sql, now, 'ability.ended', told)
  recordOnRun(sql, now, runId, 'ability.ended', {
    ...told,
    progress: executionProgress(sql, executionId),
  })
  return true
}
