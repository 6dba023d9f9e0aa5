import type { AbilityStep } from '../../../contract/ability.ts'
import { maxQueuedTurns, type Turn } from '../../../contract/turn.ts'
import { keptOutput } from '../../abilities/outputs.ts'
import {
  agentStepPrompt,
  goOnPrompt,
  guidePrompt,
  type PriorOutput,
  skillStepPrompt,
} from '../../abilities/step-prompts.ts'
import { hasStepEnded } from '../../abilities/engine.ts'
import type { Outcome } from '../../abilities/script-result.ts'
import type { Sql } from '../../ports.ts'
import { type ExecutionRow, saveExecutionStep, type StepRow } from '../executions/rows.ts'
import { denyOpenQuestions } from '../gate/questions.ts'
import { startWaking } from '../generations/sandbox-start.ts'
import { pinnedAgents } from '../pins/agents.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { givenSkillTexts } from '../skills/texts.ts'
import { abortRunning } from '../turns/aborts.ts'
import {
  addTurn,
  countQueuedTurns,
  dropQueuedTurns,
  loadTurn,
  runningTurn,
  startNextTurn,
  turnIdOf,
} from '../turns/rows.ts'
import {
  type Begun,
  stepDefinition,
  type Moving,
  stepRefused,
  type StepWork,
  stepTimeout,
} from './step-work.ts'

/** How often an agent that ends without a word is told to go on. */
const maxNudges = 3
/** So long it may stand in the queue behind others. */
const queuePatienceMs = 3_600_000

/**
 * Agent and skill steps: a turn of OpenCode each, in the queue like any other, so it begins when the turn before it has
 * ended. A step is done when its turn has completed with a last text; one without is told to go on, three times at most,
 * and then a person is asked.
 */
export class TurnSteps implements StepWork {
  readonly #kernel: SessionKernel

  constructor(kernel: SessionKernel) {
    this.#kernel = kernel
  }

  mayBegin({ sql }: Moving): boolean {
    return countQueuedTurns(sql) < maxQueuedTurns
  }

  begin(moving: Moving, row: StepRow): Begun {
    const step = stepDefinition(moving, row)
    const prompt = step === undefined ? null : this.#promptOf(moving, step)
    if (prompt === null) return stepRefused('It is no step of an agent')
    if ('ok' in prompt) return prompt
    const { provider, sandboxState } = this.#kernel.session()
    if (provider === 'none') return stepRefused('This session has no sandbox')
    if (sandboxState === 'failed' || sandboxState === 'lost')
      return stepRefused(`The sandbox is ${sandboxState}`)
    const subject = this.#queue(moving, moving.execution, prompt)
    return { subject, deadlineAt: moving.now + queuePatienceMs }
  }

  #promptOf(moving: Moving, step: AbilityStep): Prompt | ReturnType<typeof stepRefused> | null {
    const { sql, filling, copy } = moving
    const guide = guidePrompt(copy.definition.guide)
    const priors = priorsOf(moving, step.needs)
    const missing = missingInSession(sql, step)
    if (missing !== null) return stepRefused(missing)
    if (step.type === 'agent')
      return { text: guide + agentStepPrompt(step, filling, priors), agent: step.agent }
    const skill = step.type === 'skill' ? findGivenSkill(sql, step.skill) : undefined
    if (step.type !== 'skill' || !skill) return null
    return { text: guide + skillStepPrompt(step, skill.content, filling, priors), agent: null }
  }

  #queue({ sql, now }: Moving, { run_id: runId }: ExecutionRow, { text, agent }: Prompt): string {
    const { id: sessionId, sandboxState, generation } = this.#kernel.session()
    const { crypto } = this.#kernel.ports
    const id = turnIdOf(sessionId, crypto.random(8))
    addTurn(sql, now, { id, runId, messageSuffix: crypto.random(14), prompt: text, agent })
    if (sandboxState === 'ready') startNextTurn(sql, now, generation)
    if (sandboxState === 'stopped') startWaking(sql, now)
    return id
  }

  look(moving: Moving, row: StepRow): Outcome | null {
    const { sql, now } = moving
    const turn = loadTurn(sql, this.#kernel.session().id, row.subject ?? '')
    const step = stepDefinition(moving, row)
    const timeoutMs = stepTimeout(step)
    switch (turn.state) {
      case 'queued':
        return null
      case 'running':
        return this.#watch(moving, row, sinceOf(turn, row, now) + timeoutMs, timeoutMs)
      case 'completed':
        return (turn.text ?? '').trim() === ''
          ? this.#nudge(moving, row)
          : { ok: true, output: keptOutput(turn.text ?? '', summarizeOf(step)) }
      case 'aborted':
        return stepRefused(`The turn was aborted: ${turn.reason ?? ''}`)
      default:
        return {
          ...{ ok: false, failure: 'failed' },
          error: `The turn has ${turn.state === 'failed' ? 'failed' : 'been interrupted'}: ${turn.reason ?? ''}`,
        }
    }
  }

  patienceMs(moving: Moving, row: StepRow): number {
    const turn = loadTurn(moving.sql, this.#kernel.session().id, row.subject ?? '')
    return turn.state === 'queued' ? queuePatienceMs : stepTimeout(stepDefinition(moving, row))
  }

  /** Its time counts from when its turn begins. */
  #watch({ sql, now }: Moving, row: StepRow, overdueAt: number, timeoutMs: number): Outcome | null {
    if (now >= overdueAt)
      return {
        ...{ ok: false, failure: 'timeout' },
        error: `Step '${row.id}' timed out after ${timeoutMs}ms`,
      }
    if (row.deadline_at === overdueAt || row.state !== 'running') return null
    row.deadline_at = overdueAt
    saveExecutionStep(sql, row)
    return null
  }

  #nudge(moving: Moving, row: StepRow): Outcome | null {
    if (row.state !== 'running' || !this.mayBegin(moving)) return null
    if (row.nudges >= maxNudges)
      return {
        ...{ ok: false, failure: 'silent' },
        error: `The agent was told ${maxNudges} times to go on, and has not said what came of it`,
      }
    const step = stepDefinition(moving, row)
    const agent = step?.type === 'agent' ? step.agent : null
    row.nudges += 1
    row.subject = this.#queue(moving, moving.execution, { text: goOnPrompt(row.id), agent })
    row.deadline_at = moving.now + queuePatienceMs
    saveExecutionStep(moving.sql, row)
    return null
  }

  letGo({ sql, now, execution }: Moving, { subject }: StepRow, why: string): void {
    dropQueuedTurns(sql, now, execution.run_id, why)
    if (subject === null || runningTurn(sql)?.id !== subject) return
    this.#kernel.answer(denyOpenQuestions(sql, now, why, 'ability'))
    abortRunning(sql, now, this.#kernel.session().generation, why)
  }
}

/** Why the session cannot do this step; null: nothing speaks against it. */
export function missingInSession(sql: Sql, step: AbilityStep): string | null {
  if (step.type === 'skill')
    return findGivenSkill(sql, step.skill)
      ? null
      : `Skill '${step.skill}' is not available in this session`
  if (step.type !== 'agent') return null
  const agents = pinnedAgents(sql)
  const names = agents && [agents.agent, ...agents.subagents].map(({ name }) => name)
  return names === null || names.includes(step.agent)
    ? null
    : `Agent '${step.agent}' is not available in this session`
}

/** One that is a file of the workspace may not have been read. */
const findGivenSkill = (sql: Sql, name: string) =>
  givenSkillTexts(sql).find((skill) => skill.name === name && skill.path === undefined)

interface Prompt {
  text: string
  agent: string | null
}

/** A machine that was suspended while its turn ran, or while it stood in the queue, has not used up its time. */
const sinceOf = ({ startedAt }: Pick<Turn, 'startedAt'>, row: StepRow, now: number): number =>
  Math.max(startedAt ?? now, row.renewed_at ?? 0)

const summarizeOf = (step: AbilityStep | undefined) =>
  step?.type === 'agent' || step?.type === 'skill' ? step.summarize : false

function priorsOf({ copy, steps }: Moving, needs: readonly string[]): PriorOutput[] {
  return needs.flatMap((id) => {
    const row = steps.find((one) => one.id === id && one.part === 'step')
    const step = copy.definition.steps.find((one) => one.id === id)
    if (!row || !hasStepEnded(row.state) || row.state === 'skipped') return []
    return [{ id, by: byOf(step), output: row.output ?? '' }]
  })
}

function byOf(step: AbilityStep | undefined): string | null {
  if (step?.type === 'agent') return step.agent
  if (step?.type === 'skill') return step.skill
  return step?.type === 'workflow' ? step.workflow : null
}
