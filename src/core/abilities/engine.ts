import type { AbilityStep, OnFailure, StepStatus } from '../../contract/ability.ts'
import type { StepAnswer, StepState } from '../../contract/execution.ts'
import type { Ability } from './definition.ts'
import { type Known, conditionHolds, readCondition } from './conditions.ts'

/**
 * What an execution does next, decided from how its steps stand and from nothing else. It promises that no step begins
 * before all that it needs has ended, that none begins twice, that nothing begins after an end, and that there is exactly
 * one end. The room of executions calls it inside its commits and does what it says.
 */

export type Part = 'before' | 'step' | 'after'

/** One step or hook, as it stands. */
export interface StepStand {
  id: string
  part: Part
  type: AbilityStep['type']
  state: StepState
  /** It has failed, and with it the execution. */
  stops: boolean
  /** Null: it has none. */
  output: string | null
  error: string | null
}

export type Act =
  | { do: 'start'; id: string }
  | { do: 'skip'; id: string; why: string }
  | { do: 'end'; status: 'completed' | 'failed'; error: string | null }

/** At most so many scripts and approvals at once, however many could begin. */
const maxTogether = 8

export const hasStepEnded = (state: StepState): state is StepStatus =>
  state === 'completed' || state === 'failed' || state === 'skipped'

const isMoving = (state: StepState): boolean => state === 'running' || state === 'asking'

/**
 * The next thing to do; null: there is something to wait for. Called again after each, until it is null or an end. The
 * stands are in the order in which steps run: hooks before, steps, hooks after.
 */
export function nextEngineAct(
  ability: Ability,
  stands: readonly StepStand[],
  inputs: Known['inputs'],
): Act | null {
  const stopped = stands.find(({ stops }) => stops)
  if (stopped) return { do: 'end', status: 'failed', error: engineFailure(stopped) }
  const before = nextHook(stands, 'before')
  if (before !== 'done') return before
  const step = nextStep(ability, stands, inputs)
  if (step !== 'done') return step
  const after = nextHook(stands, 'after')
  return after === 'done' ? { do: 'end', status: 'completed', error: null } : after
}

const engineFailure = ({ id, error }: Pick<StepStand, 'id' | 'error'>): string =>
  `Step '${id}' failed${error === null ? '' : `: ${error}`}`

function nextHook(stands: readonly StepStand[], part: Part): Act | null | 'done' {
  const next = stands.find((stand) => stand.part === part && !hasStepEnded(stand.state))
  if (!next) return 'done'
  return next.state === 'pending' ? { do: 'start', id: next.id } : null
}

function nextStep(
  ability: Ability,
  stands: readonly StepStand[],
  inputs: Known['inputs'],
): Act | null | 'done' {
  const steps = new Map(ability.steps.map((step) => [step.id, step]))
  const own = stands.filter(({ part }) => part === 'step')
  const states = new Map(own.map(({ id, state }) => [id, state]))
  const left = own.filter(({ state }) => !hasStepEnded(state))
  if (left.length === 0) return 'done'
  const moving = left.filter(({ state }) => isMoving(state))
  const isReady = ({ id, state }: StepStand) =>
    state === 'pending' &&
    (steps.get(id)?.needs ?? []).every((need) => hasStepEnded(states.get(need) ?? 'pending'))
  const next = ability.settings.parallel
    ? left.find((one) => isReady(one) && mayJoin(one, moving))
    : left[0]
  if (!next || !isReady(next)) return null
  const when = steps.get(next.id)?.when
  return when === undefined || isWanted(when, { inputs, steps: engineSteps(stands) })
    ? { do: 'start', id: next.id }
    : { do: 'skip', id: next.id, why: `Its condition does not hold: ${when}` }
}

/** Agents, skills and other abilities share the session's one conversation, so they go one at a time. */
function mayJoin(step: StepStand, moving: readonly StepStand[]): boolean {
  if (moving.length >= maxTogether) return false
  return usesTurns(step) ? !moving.some(usesTurns) : true
}

const usesTurns = ({ type }: StepStand): boolean =>
  type === 'agent' || type === 'skill' || type === 'workflow'

/** What cannot be read was refused when the ability was; it never counts as true. */
function isWanted(when: string, known: Known): boolean {
  const read = readCondition(when)
  return 'condition' in read && conditionHolds(read.condition, known)
}

/** What conditions and placeholders know of steps that have ended. */
export function engineSteps(stands: readonly StepStand[]): Known['steps'] {
  const ended = stands.flatMap(({ id, part, state, output }) =>
    part === 'step' && hasStepEnded(state)
      ? [[id, { status: state, output: output ?? '' }] as const]
      : [],
  )
  return Object.fromEntries(ended)
}

/**
 * Why a step has not come to its end. failed: it ran and did not do what it should. timeout: it took too long. refused:
 * it may not, or cannot, and would not another time. unknown: nobody can say whether it ran. silent: an agent was told to
 * go on as often as it may be, and has not said what came of it.
 */
export type Failure = 'failed' | 'timeout' | 'refused' | 'unknown' | 'silent'

export type AfterFailure = 'retry' | 'ask' | 'continue' | 'stop'

/** What becomes of a step that has failed, by what its author says. `tries` counts this one. */
export function engineAfterFailure(
  failure: Failure,
  { onFailure, maxRetries, tries }: { onFailure: OnFailure; maxRetries: number; tries: number },
): AfterFailure {
  if (failure === 'silent') return 'ask'
  if (failure === 'unknown') return onFailure === 'continue' ? 'continue' : 'ask'
  if (onFailure !== 'retry') return onFailure
  if (failure === 'refused') return 'stop'
  return tries <= Math.max(1, maxRetries) ? 'retry' : 'stop'
}

/** What happens to a step. */
export type StepCause =
  | 'start'
  | 'skip'
  | 'complete'
  | AfterFailure
  | `answer.${StepAnswer}`
  | 'end'

/** Every pair that is not here means nothing: news that comes late or twice changes nothing. */
const transitions: Record<StepState, Partial<Record<StepCause, StepState>>> = {
  pending: { start: 'running', skip: 'skipped' },
  running: {
    complete: 'completed',
    retry: 'pending',
    ask: 'asking',
    continue: 'failed',
    stop: 'failed',
    end: 'failed',
  },
  asking: {
    // The result has come after all.
    complete: 'completed',
    'answer.retry': 'pending',
    'answer.continue': 'failed',
    'answer.skip': 'skipped',
    'answer.stop': 'failed',
    end: 'failed',
  },
  completed: {},
  failed: {},
  skipped: {},
}

export const nextStepState = (state: StepState, cause: StepCause): StepState | null =>
  transitions[state][cause] ?? null

/** planned: its plan waits for a person. */
export type ExecutionState = 'planned' | 'running' | 'completed' | 'failed' | 'cancelled'
export type ExecutionCause = 'approve' | 'complete' | 'fail' | 'cancel'

const ends = { fail: 'failed', cancel: 'cancelled' } as const
const executionTransitions: Record<
  ExecutionState,
  Partial<Record<ExecutionCause, ExecutionState>>
> = {
  planned: { approve: 'running', ...ends },
  running: { complete: 'completed', ...ends },
  completed: {},
  failed: {},
  cancelled: {},
}

export const nextExecutionState = (
  state: ExecutionState,
  cause: ExecutionCause,
): ExecutionState | null => executionTransitions[state][cause] ?? null
