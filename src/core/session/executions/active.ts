import type { AbilityEnforcement } from '../../../contract/ability.ts'
import { strictestEnforcement } from '../../abilities/enforcement.ts'
import type { StepState } from '../../../contract/execution.ts'
import type { Sql } from '../../ports.ts'
import {
  activeExecution,
  childExecutions,
  type ExecutionRow,
  findExecutionCopy,
  movingExecutionSteps,
  executionProgress,
  type StepRow,
} from './rows.ts'

/** What a running ability lets the agent do: for the gate's judge, and for the text that goes with each message. */
export interface ActiveAbility {
  executionId: string
  /** Of the innermost execution: a workflow step is at work by its child. */
  ability: string
  level: AbilityEnforcement
  /** Such as 2/5. */
  progress: string
  /** Several only where steps run together; none between two steps. */
  steps: ActiveStep[]
}

export interface ActiveStep {
  id: string
  type: StepRow['type']
  state: Extract<StepState, 'running' | 'asking'>
  /** Of an agent step. */
  agent: string | null
  /** Of an agent step that names them: of the tools of its agent only these. */
  tools: readonly string[] | null
  /** Of a skill step. */
  skill: string | null
  /** The turn that does it, once it is queued; null for what no turn does. */
  turnId: string | null
}

/** Null: no ability is at work in this session. One whose plan nobody has approved yet holds nobody to anything. */
export function activeExecutionStep(sql: Sql): ActiveAbility | null {
  const top = activeExecution(sql)
  if (!top || top.state === 'planned') return null
  const chain = chainFrom(sql, top)
  const execution = chain.at(-1) ?? top
  const { id: executionId, ability } = execution
  const copy = findExecutionCopy(sql, execution.hash, ability)
  const level = strictestEnforcement(chain.map((one) => ownLevel(sql, one)))
  const definitions = new Map(copy?.definition.steps.map((step) => [step.id, step]))
  const steps = movingExecutionSteps(sql, executionId).map((row): ActiveStep => {
    const step = row.part === 'step' ? definitions.get(row.id) : undefined
    const { id, type, state } = row
    return {
      ...{ id, type, state: state as ActiveStep['state'] },
      agent: step?.type === 'agent' ? step.agent : null,
      tools: (step?.type === 'agent' ? step.tools : undefined) ?? null,
      skill: step?.type === 'skill' ? step.skill : null,
      turnId: type === 'agent' || type === 'skill' ? row.subject : null,
    }
  })
  return { executionId, ability, level, progress: executionProgress(sql, executionId), steps }
}

/** From this one to the one whose steps run. */
function chainFrom(sql: Sql, execution: ExecutionRow): ExecutionRow[] {
  const [child] = childExecutions(sql, execution.id)
  return child ? [execution, ...chainFrom(sql, child)] : [execution]
}

const ownLevel = (sql: Sql, { hash, ability }: ExecutionRow): AbilityEnforcement =>
  findExecutionCopy(sql, hash, ability)?.definition.settings.enforcement ?? 'strict'

/** Of an execution without a parent, with all that it has called. */
export const activeExecutionLevel = (sql: Sql, execution: ExecutionRow): AbilityEnforcement =>
  strictestEnforcement(chainFrom(sql, execution).map((one) => ownLevel(sql, one)))
