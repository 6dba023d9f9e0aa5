import type { AbilityStep } from '../../../contract/ability.ts'
import { parseDuration } from '../../abilities/durations.ts'
import { hasStepEnded, type StepStand } from '../../abilities/engine.ts'
import type { Filling } from '../../abilities/scripts/placeholders.ts'
import type { Outcome } from '../../abilities/script-result.ts'
import type { Sql } from '../../ports.ts'
import type { ApprovalAsker } from '../approvals/rows.ts'
import type { AbilityCopy, ExecutionRow, Starter, StepRow } from '../executions/rows.ts'
import { askerOf } from '../operations/decision.ts'

/** One execution inside a commit that moves it. */
export interface Moving {
  sql: Sql
  now: number
  execution: ExecutionRow
  copy: AbilityCopy
  steps: StepRow[]
  /** Secret inputs are masked in it. */
  filling: Filling
  /** By name. */
  secrets: Readonly<Record<string, unknown>>
}

/** A step that was begun, or why it could not be. */
export type Begun = { subject: string; deadlineAt: number | null } | Extract<Outcome, { ok: false }>

/** Who does steps of one type. Inside a commit, both. */
export interface StepWork {
  /** False: there is no room for it yet. Absent: there always is. */
  mayBegin?(moving: Moving): boolean
  begin(moving: Moving, step: StepRow): Begun
  /** How it went; null: it is still at work, or waits for somebody. */
  look(moving: Moving, step: StepRow): Outcome | null
  /** How long it may take from now on; absent: as its author wrote. */
  patienceMs?(moving: Moving, step: StepRow): number
  /** Nobody wants it any more: what is under way of it is stopped. */
  letGo?(moving: Moving, step: StepRow, why: string): void
}

export const stepRefused = (error: string): Extract<Outcome, { ok: false }> => ({
  ...{ ok: false, failure: 'refused', error },
})

const defaultTimeoutMs = 300_000

/** As its author wrote it; undefined: a hook. */
export const stepDefinition = ({ copy }: Moving, { id, part }: StepRow): AbilityStep | undefined =>
  part === 'step' ? copy.definition.steps.find((step) => step.id === id) : undefined

/** Of `hooks.before.0` the first of those before. */
export const hookCommand = (
  hooks: AbilityCopy['definition']['hooks'],
  { id, part }: Pick<StepRow, 'id' | 'part'>,
): string => hooks[part === 'before' ? 'before' : 'after'][Number(id.split('.')[2])] ?? ''

export const stepTimeout = (step: Pick<AbilityStep, 'timeout'> | undefined): number =>
  (step?.timeout === undefined ? null : parseDuration(step.timeout)) ?? defaultTimeoutMs

export const stepStands = (steps: readonly StepRow[]): StepStand[] =>
  steps.map(({ id, part, type, state, stops, output, error }) => ({
    ...{ id, part, type, state, output, error },
    stops: stops === 1,
  }))

/** What scripts read as JSON. */
export const stepOutputs = (steps: readonly StepRow[]) =>
  Object.fromEntries(
    steps
      .filter(({ part, state }) => part === 'step' && hasStepEnded(state))
      .map(({ id, state, output, error }) => [id, { status: state, output, error }]),
  )

/**
 * Who asks for approvals of this execution: the ability, as the sandbox does for its agent, so whoever started it may
 * answer. For others alone it is whoever started it, who can then not approve it.
 */
export function stepAsker(
  { id, starter }: Pick<ExecutionRow, 'id' | 'starter'>,
  whose: 'anybody' | 'others' = 'anybody',
): ApprovalAsker {
  const by = JSON.parse(starter) as Starter
  if (by.kind === 'sandbox') return { kind: 'sandbox', id: String(by.generation), owner: null }
  return whose === 'others' ? askerOf(by) : { kind: 'ability', id, owner: by.owner }
}
