import type { Answer } from '../../../contract/ask.ts'
import type { StepAnswer } from '../../../contract/execution.ts'
import {
  engineAfterFailure,
  type ExecutionCause,
  engineSteps,
  nextEngineAct,
} from '../../abilities/engine.ts'
import { parseDuration } from '../../abilities/durations.ts'
import type { Outcome } from '../../abilities/script-result.ts'
import { clearDeadline, setDeadline } from '../../actor/deadlines.ts'
import type { Sql } from '../../ports.ts'
import { mustApproval } from '../approvals/rows.ts'
import type { Headroom } from '../budget/spending.ts'
import {
  type AbilityCopy,
  applyToExecutionStep,
  changeExecution,
  changeExecutionStep,
  childExecutions,
  type ExecutionRow,
  findExecutionCopy,
  openExecutions,
  saveExecutionStep,
  type StepRow,
  executionSteps,
  tellExecutionStep,
} from '../executions/rows.ts'
import { mustRun } from '../runs/rows.ts'
import type { RunClose } from '../runs/runs.ts'
import { hasEnded } from '../runs/transitions.ts'
import { endRunWait, addRunWait } from '../runs/waits.ts'
import { cancelAskedFor } from './asking.ts'
import { renewStepTimes } from './step-renewal.ts'
import { stepDefinition, type Moving, stepStands, type StepWork } from './step-work.ts'

interface MovesParts {
  /** Ends a run, with all that is under way in it. */
  stopRun: (sql: Sql, now: number, runId: string, end: RunClose) => Answer[]
  answer: (answers: readonly Answer[]) => void
  /** Secret inputs that are open, by execution. */
  secrets: (executionId: string) => Readonly<Record<string, unknown>>
  /** Another number as soon as executions or their steps may have changed. */
  state: () => number
}

/** What was read of open executions. Whoever moves them changes it with the tables. */
interface Known {
  /** undefined: there may be others by now. */
  open: ExecutionRow[] | undefined
  moving: Map<string, Moving>
}

/** Beyond so many characters of outputs steps are read anew each time: they would stay in memory. */
const maxKnownOutput = 256 * 1024

export type Works = Record<StepRow['type'], StepWork>

/** Looked again so often while there is no budget; a budget that is raised is heard of at once. */
const budgetPollMs = 60_000

/**
 * Moves executions: looks how the steps that were begun stand, writes down what came of them, and begins what is next.
 * All of it is read off the tables, so it may be called at any time and as often as one likes; what is begun is begun in
 * the commit that says so. The room calls it after every commit that may matter, and when a deadline is due.
 */
export class Moves {
  readonly #works: Works
  readonly #parts: MovesParts
  readonly #copies = new Map<string, AbilityCopy>()
  /** As the last move left it, and true as long as the state is the same: a commit that fails makes it another one. */
  #last: { known: Known; state: number } | undefined
  #known: Known = { open: undefined, moving: new Map() }

  constructor(works: Works, parts: MovesParts) {
    this.#works = works
    this.#parts = parts
  }

  /** Reads nothing if nobody has written any since. */
  isAnyOpen(sql: Sql): boolean {
    const last = this.#last?.state === this.#parts.state() ? this.#last.known.open : undefined
    return (last ?? openExecutions(sql)).length > 0
  }

  /** Inside a commit. Until nothing moves any more. False: nothing has. */
  advance(sql: Sql, now: number, headroom: Headroom): boolean {
    const { state } = this.#parts
    const { known, state: then } = this.#last ?? {}
    this.#known = known && then === state() ? known : { open: undefined, moving: new Map() }
    for (const moving of this.#known.moving.values()) Object.assign(moving, { sql, now })
    const looked = new Set<string>()
    let [isShort, hasMoved] = [false, false]
    for (let moved = true; moved;) {
      moved = false
      for (const execution of (this.#known.open ??= this.#readOpen(sql))) {
        const came = this.#look(sql, now, execution, looked, headroom)
        moved ||= came === 'moved'
        isShort ||= came === 'short'
        // What has begun or ended others: the rest of this list may not be true any more.
        if (this.#known.open === undefined) break
      }
      hasMoved ||= moved
    }
    this.#arm(sql, isShort ? now + budgetPollMs : null)
    if (this.#fits()) this.#last = { known: this.#known, state: state() }
    return hasMoved
  }

  /** One object per row: what was kept of an execution has the row that is in this list. */
  #readOpen(sql: Sql): ExecutionRow[] {
    const open = openExecutions(sql)
    for (const execution of open) {
      const moving = this.#known.moving.get(execution.id)
      if (moving) moving.execution = execution
    }
    return open
  }

  /** Whether it must end is asked at the first look of a commit: nothing in it changes that. */
  #look(
    sql: Sql,
    now: number,
    execution: ExecutionRow,
    looked: Set<string>,
    headroom: Headroom,
  ): 'moved' | 'short' | null {
    const { moving: known } = this.#known
    const moving = known.get(execution.id) ?? this.#moving(sql, now, execution)
    known.set(execution.id, moving)
    if (!looked.has(execution.id)) renewStepTimes(moving, this.#works)
    const ended = looked.has(execution.id) ? null : this.#mustEnd(moving)
    looked.add(execution.id)
    if (ended !== null) return this.end(sql, now, moving.execution, ended) ? 'moved' : null
    return this.#moveOne(moving, headroom)
  }

  /** The next moment at which time alone changes something. */
  #arm(sql: Sql, pollAt: number | null): void {
    const { open = [], moving } = this.#known
    const times = open.flatMap(({ id, deadline_at: own }) => {
      const running = moving.get(id)?.steps.filter(({ state }) => state === 'running') ?? []
      return [own, ...running.map(({ deadline_at: at }) => at)]
    })
    const known = [...times, pollAt].filter((at) => at !== null)
    if (known.length === 0) clearDeadline(sql, 'ability')
    else setDeadline(sql, 'ability', Math.min(...known))
  }

  #fits(): boolean {
    const { moving, open = [] } = this.#known
    const isOpen = new Set(open.map(({ id }) => id))
    for (const id of moving.keys()) if (!isOpen.has(id)) moving.delete(id)
    let room = maxKnownOutput
    for (const { steps } of moving.values())
      for (const { output } of steps) room -= output?.length ?? 0
    return room >= 0
  }

  /** A person has said how to go on. False: the step does not ask. */
  answered(
    sql: Sql,
    now: number,
    execution: ExecutionRow,
    { stepId, answer, why }: { stepId: string; answer: StepAnswer; why: string },
  ): boolean {
    const moving = this.#moving(sql, now, execution)
    const step = moving.steps.find(({ id }) => id === stepId)
    if (step?.state !== 'asking') return false
    this.#works[step.type].letGo?.(moving, step, why)
    changeExecutionStep(moving, step, `answer.${answer}`)
    endRunWait(sql, now, execution.run_id, waitOf(execution, step), why)
    return true
  }

  /** With everything that is under way in it. False: it had ended before. */
  end(
    sql: Sql,
    now: number,
    execution: ExecutionRow,
    { cause, error, actor, owner }: ExecutionEnd,
  ): boolean {
    if (!changeExecution(sql, now, execution, cause, error)) return false
    this.#known.open = undefined
    for (const child of childExecutions(sql, execution.id))
      this.end(sql, now, child, { cause: 'cancel', error, actor, owner })
    const steps = executionSteps(sql, execution.id)
    // What has not begun, or has ended, stays as it is.
    for (const step of steps)
      changeExecutionStep({ sql, now, execution, steps }, step, 'end', { error })
    const status = ({ complete: 'completed', fail: 'failed', cancel: 'cancelled' } as const)[cause]
    if (!hasEnded(mustRun(sql, execution.run_id).status))
      this.#stop(sql, now, execution.run_id, { status, reason: error, actor, owner })
    return true
  }

  #stop(sql: Sql, now: number, runId: string, end: RunClose): void {
    const { stopRun, answer } = this.#parts
    answer(stopRun(sql, now, runId, end))
  }

  #moving(sql: Sql, now: number, execution: ExecutionRow): Moving {
    const steps = executionSteps(sql, execution.id)
    const inputs = JSON.parse(execution.inputs) as Record<string, unknown>
    const filling = { inputs, steps: engineSteps(stepStands(steps)), ask: execution.words }
    const { secrets } = this.#parts
    let open: Moving['secrets'] | undefined
    return {
      ...{ sql, now, execution, copy: this.#copyOf(sql, execution), steps, filling },
      // When they are used: whoever says how a step goes on has not opened them.
      get secrets() {
        return (open ??= secrets(execution.id))
      },
    }
  }

  #copyOf(sql: Sql, { hash, ability }: ExecutionRow): AbilityCopy {
    const key = `${hash} ${ability}`
    const copy = this.#copies.get(key) ?? findExecutionCopy(sql, hash, ability)
    if (!copy) throw new Error(`The copy of "${ability}" is gone`)
    this.#copies.set(key, copy)
    return copy
  }

  #moveOne(moving: Moving, headroom: Headroom): 'moved' | 'short' | null {
    if (moving.execution.state === 'planned') return this.#lookAtPlan(moving) ? 'moved' : null
    const settled = moving.steps.filter((step) => this.#lookAt(moving, step))
    if (settled.length > 0) return 'moved'
    return this.#go(moving, headroom)
  }

  /** Whoever has ended its run has ended it; so has time. */
  #mustEnd({ sql, now, execution, copy }: Moving): ExecutionEnd | null {
    const run = mustRun(sql, execution.run_id)
    const actor = 'ability'
    if (hasEnded(run.status)) {
      const error = `The run is ${run.status}${run.reason === null ? '' : `: ${run.reason}`}`
      return { cause: 'cancel', error, actor, owner: null }
    }
    const asked = cancelAskedFor(sql, execution.id)
    if (asked?.state === 'approved') {
      const error = 'Cancelled by user: a person has agreed with the agent'
      return { cause: 'cancel', error, actor: asked.actor ?? actor, owner: null }
    }
    if (execution.deadline_at === null || execution.deadline_at > now) return null
    const ms = parseDuration(copy.definition.settings.timeout ?? 0)
    const error = `Ability '${copy.name}' timed out after ${ms}ms`
    return { cause: 'fail', error, actor: 'deadline', owner: null }
  }

  #lookAtPlan({ sql, now, execution }: Moving): boolean {
    const plan = mustApproval(sql, execution.plan_approval_id ?? '')
    if (plan.state === 'pending') return false
    if (plan.state === 'approved') return changeExecution(sql, now, execution, 'approve')
    const error = `The plan was ${plan.state}: ${plan.resolution_reason ?? ''}`
    return this.end(sql, now, execution, { cause: 'fail', error, actor: 'ability', owner: null })
  }

  /** True if the step has changed. */
  #lookAt(moving: Moving, step: StepRow): boolean {
    if (step.state !== 'running' && step.state !== 'asking') return false
    const isAsking = step.state === 'asking'
    const outcome = this.#works[step.type].look(moving, step) ?? overdue(moving, step)
    // What nobody knew may be known by now; what has failed is in a person's hands.
    if (outcome === null || (isAsking && !outcome.ok)) return false
    if (!outcome.ok && outcome.failure === 'timeout')
      this.#works[step.type].letGo?.(moving, step, outcome.error)
    settle(moving, step, outcome)
    return true
  }

  #go(moving: Moving, headroom: Headroom): 'moved' | 'short' | null {
    const { sql, now, execution, copy, steps, filling, secrets } = moving
    const act = nextEngineAct(copy.definition, stepStands(steps), { ...filling.inputs, ...secrets })
    if (act === null) return null
    if (act.do === 'end') {
      const cause = act.status === 'completed' ? 'complete' : 'fail'
      const end = { cause, error: act.error, actor: 'ability', owner: null } as const
      return this.end(sql, now, execution, end) ? 'moved' : null
    }
    const step = steps.find(({ id }) => id === act.id)
    if (!step) throw new Error(`There is no step "${act.id}"`)
    if (act.do === 'skip')
      return changeExecutionStep(moving, step, 'skip', { error: act.why }) ? 'moved' : null
    const isRoom = this.#works[step.type].mayBegin?.(moving) ?? true
    if (headroom.reasons.length > 0 || !isRoom) return 'short'
    this.#begin(moving, step)
    return 'moved'
  }

  #begin(moving: Moving, step: StepRow): void {
    const { sql, now } = moving
    moving.filling = { ...moving.filling, steps: engineSteps(stepStands(moving.steps)) }
    const again = { output: null, error: null, exit_code: null, nudges: 0 }
    applyToExecutionStep(now, step, 'start', again)
    // First: a turn that begins at once speaks of the step that is at work, and a child has its parent.
    if (step.type !== 'script') saveExecutionStep(sql, step)
    if (step.type === 'workflow') this.#known.open = undefined
    const begun = this.#works[step.type].begin(moving, step)
    if (!('ok' in begun)) {
      step.subject = begun.subject
      step.deadline_at = begun.deadlineAt
      saveExecutionStep(sql, step)
    }
    tellExecutionStep(moving, step)
    if ('ok' in begun) settle(moving, step, begun)
  }
}

/** How and by whom. */
export interface ExecutionEnd {
  cause: Exclude<ExecutionCause, 'approve'>
  error: string | null
  actor: string
  owner: string | null
}

function overdue({ now }: Moving, step: StepRow): Outcome | null {
  if (step.state !== 'running' || step.deadline_at === null || step.deadline_at > now) return null
  const ms = step.deadline_at - (step.renewed_at ?? step.started_at ?? now)
  return { ok: false, failure: 'timeout', error: `Step '${step.id}' timed out after ${ms}ms` }
}

/** What came of a step, and what its author wants if it has failed. */
function settle(moving: Moving, step: StepRow, outcome: Outcome): void {
  const { sql, now, execution } = moving
  const change = { output: outcome.output ?? null, exit_code: outcome.exitCode ?? null }
  if (outcome.ok) {
    const wasAsking = step.state === 'asking'
    changeExecutionStep(moving, step, 'complete', { ...change, error: null })
    if (wasAsking)
      endRunWait(sql, now, execution.run_id, waitOf(execution, step), 'It has ended after all')
    return
  }
  const next = engineAfterFailure(outcome.failure, failurePolicy(moving, step))
  changeExecutionStep(moving, step, next, { ...change, error: outcome.error })
  if (next !== 'ask') return
  const why = `Step '${step.id}' of '${execution.ability}' asks: ${outcome.error}`
  addRunWait(sql, now, execution.run_id, waitOf(execution, step), why)
}

/** A hook before the steps that fails ends all; one after them changes nothing. */
function failurePolicy(moving: Moving, step: StepRow) {
  const { settings } = moving.copy.definition
  const own = stepDefinition(moving, step)
  const hook = step.part === 'after' ? 'continue' : 'stop'
  return {
    onFailure: step.part === 'step' ? (own?.on_failure ?? settings.on_failure) : hook,
    maxRetries: own?.max_retries ?? 1,
    tries: step.tries,
  } as const
}

const waitOf = ({ id }: ExecutionRow, step: StepRow): string => `${id}/${step.id}`
