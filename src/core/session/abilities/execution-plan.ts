import type { AbilityStep } from '../../../contract/ability.ts'
import type { AbilityPlan, PlannedStep } from '../../../contract/execution.ts'
import { fillPlaceholders } from '../../abilities/scripts/placeholders.ts'
import { cutOutput } from '../../abilities/outputs.ts'
import { type Condition, conditionHolds, readCondition } from '../../abilities/conditions.ts'
import type { Sql } from '../../ports.ts'
import { isGuide } from '../../registry/abilities/hook-files.ts'
import {
  type AbilityCopy,
  type ExecutionRow,
  type StepRow,
  executionStepsOf,
  findExecutionCopy,
} from '../executions/rows.ts'
import { hookCommand, stepDefinition, type Moving, stepTimeout } from './step-work.ts'
import type { Scripts } from './scripts.ts'
import type { NewStart } from './execution-start.ts'
import { missingInSession } from './turn-steps.ts'

/** What an execution with these inputs would do. Decides nothing and writes nothing. */
export function planExecution(
  sql: Sql,
  now: number,
  start: Pick<NewStart, 'ability' | 'inputs' | 'planHash' | 'words' | 'nested'>,
  scripts: Scripts,
  secrets: Readonly<Record<string, unknown>>,
): AbilityPlan {
  const { ability, inputs, planHash } = start
  const { settings } = ability.definition
  const moving = imagined(sql, now, start, secrets)
  return {
    ...{ ability: ability.name, version: ability.version, hash: ability.hash, planHash },
    ...{ enforcement: settings.enforcement, approval: settings.approval },
    ...{ parallel: settings.parallel, inputs: { ...inputs } },
    guides: ability.files.filter(isGuide),
    steps: moving.steps.map((row) => planStep(moving, row, scripts, start.nested)),
  }
}

/** Of one step, and of all of them: a webhook has room for so much. */
const [maxOutlined, maxOutline] = [2000, 24_000]

/** What its author wrote of each step, for whoever approves the plan: inputs and words are shown beside it. */
export function outlineExecution(
  sql: Sql,
  { hash, ability }: Pick<ExecutionRow, 'hash' | 'ability'>,
): OutlinedStep[] {
  const definition = findExecutionCopy(sql, hash, ability)?.definition
  if (definition === undefined) return []
  const { hooks, steps } = definition
  let room = maxOutline
  return executionStepsOf(definition).map(({ id, part, type }) => {
    const step = part === 'step' ? steps.find((one) => one.id === id) : undefined
    const own = step === undefined ? hookCommand(hooks, { id, part }) : textOfStep(step)
    const what = cutOutput(own, Math.min(maxOutlined, Math.max(100, room)))
    room -= what.length
    return { id, type, what }
  })
}

export interface OutlinedStep {
  id: string
  type: AbilityStep['type']
  what: string
}

/** An execution that stands before its first step; what steps will say is named. */
function imagined(
  sql: Sql,
  now: number,
  { ability, inputs, planHash, words, nested }: Parameters<typeof planExecution>[2],
  secrets: Readonly<Record<string, unknown>>,
): Moving {
  const { definition, name, hash, version } = ability
  const execution: ExecutionRow = {
    ...{ n: 0, id: '', ability: name, hash, version, parent_id: null, parent_step: null },
    ...{ run_id: '', state: 'planned', starter: '', inputs: JSON.stringify(inputs), words },
    ...{ plan_hash: planHash, plan_approval_id: null, error: null, deadline_at: null },
    ...{ started_at: now, ended_at: null, nested: JSON.stringify(nested) },
  }
  const outputs = definition.steps.map(({ id }) => [
    id,
    { status: 'completed' as const, output: `<output of ${id}>` },
  ])
  const filling = { inputs, steps: Object.fromEntries(outputs), ask: words }
  return { sql, now, execution, copy: ability, steps: rowsOf(ability), filling, secrets }
}

const rowsOf = ({ definition }: AbilityCopy): StepRow[] =>
  executionStepsOf(definition).map((step, position) => ({
    ...{ ...step, execution_id: '', position, state: 'pending', tries: 0, nudges: 0 },
    ...{ subject: null, output: null, error: null, exit_code: null, stops: 0 },
    ...{ deadline_at: null, started_at: null, renewed_at: null, ended_at: null },
  }))

function planStep(
  moving: Moving,
  row: StepRow,
  scripts: Scripts,
  nested: Readonly<Record<string, string>>,
): PlannedStep {
  const step = stepDefinition(moving, row)
  const { settings } = moving.copy.definition
  const hookPolicy = row.part === 'after' ? 'continue' : 'stop'
  const base: PlannedStep = {
    ...{ stepId: row.id, type: row.type, part: row.part, needs: step?.needs ?? [] },
    ...{ description: step?.description ?? null, when: step?.when ?? null },
    runs: willRun(moving, step),
    onFailure: row.part === 'step' ? (step?.on_failure ?? settings.on_failure) : hookPolicy,
    timeoutMs: stepTimeout(step),
    what: step === undefined ? '' : whatOf(moving, step),
    ...{ decision: null, asks: row.type === 'approval', reason: null, isolation: null },
    network: null,
    ...{ notEnforced: [], notPinned: [], problem: null },
  }
  if (step?.type === 'workflow' && !Object.hasOwn(nested, step.workflow))
    return { ...base, problem: `Nested ability '${step.workflow}' not found` }
  const missing = step === undefined ? null : missingInSession(moving.sql, step)
  if (row.type !== 'script') return { ...base, problem: missing }
  const foreseen = scripts.foresee(moving, row)
  if ('problem' in foreseen) return { ...base, problem: foreseen.problem }
  const { command, decision, reason, plan, notPinned } = foreseen
  return {
    ...base,
    ...{ what: command, decision, reason, notPinned, notEnforced: plan.notEnforced },
    // Whoever approves the plan has answered for its scripts.
    asks: decision === 'ask' && settings.approval !== 'plan',
    ...{ isolation: plan.strategy, network: plan.network },
  }
}

const whatOf = ({ filling }: Moving, step: AbilityStep): string =>
  step.type === 'script' ? step.run : fillPlaceholders(textOfStep(step), filling)

function textOfStep(step: AbilityStep): string {
  if (step.type === 'agent') return `${step.agent}: ${step.prompt}`
  if (step.type === 'approval') return step.prompt
  if (step.type === 'skill') return step.skill
  return step.type === 'workflow' ? step.workflow : step.run
}

function willRun({ filling, secrets }: Moving, step: AbilityStep | undefined): PlannedStep['runs'] {
  const read = step?.when === undefined ? null : readCondition(step.when)
  if (read === null) return 'yes'
  if ('problem' in read) return 'no'
  if (speaksOfSteps(read.condition)) return 'depends'
  const inputs = { ...filling.inputs, ...secrets }
  return conditionHolds(read.condition, { inputs, steps: {} }) ? 'yes' : 'no'
}

function speaksOfSteps(condition: Condition): boolean {
  if (condition.kind === 'or' || condition.kind === 'and')
    return speaksOfSteps(condition.left) || speaksOfSteps(condition.right)
  if (condition.kind === 'not') return speaksOfSteps(condition.of)
  const operands = condition.kind === 'true' ? [condition.of] : [condition.left, condition.right]
  return operands.some(({ kind }) => kind === 'status' || kind === 'output')
}
