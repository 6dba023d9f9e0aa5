import type { ApprovalState } from '../../../contract/approval.ts'
import { canonicalJson } from '../../../contract/canonical.ts'
import type { PermissionRecord } from '../../../contract/permission-record.ts'
import { fillPlaceholders } from '../../abilities/scripts/placeholders.ts'
import type { Outcome } from '../../abilities/script-result.ts'
import { hashText } from '../../hash.ts'
import type { Sql } from '../../ports.ts'
import { mustApproval, openApproval } from '../approvals/rows.ts'
import type { ExecutionRow, StepRow } from '../executions/rows.ts'
import type { SessionPolicy } from '../gate/policy.ts'
import { recordOnRun } from '../runs/rows.ts'
import type { OutlinedStep } from './execution-plan.ts'
import {
  stepAsker,
  type Begun,
  stepDefinition,
  type Moving,
  stepRefused,
  type StepWork,
  stepTimeout,
} from './step-work.ts'

/** What a person is asked on behalf of an ability. */
export interface AbilityQuestion {
  execution: ExecutionRow
  /** Null: about the plan. */
  stepId: string | null
  prompt: string
  options: { label: string; value: string }[] | null
  timeoutMs: number
  /** So many others than whoever started it; null: anybody's word is enough. */
  quorum: number | null
  /** Of a plan: what runs. */
  steps?: readonly OutlinedStep[]
}

/**
 * Approvals of abilities: of a step whose author wants a person's word, and of a whole plan. They are approvals like any
 * other, bound to the hash of the plan, so that time rejects them, and a quorum is one of other people than its starter.
 */
export class Asking implements StepWork {
  readonly #policy: SessionPolicy
  readonly #newId: () => string

  constructor(policy: SessionPolicy, newId: () => string) {
    this.#policy = policy
    this.#newId = newId
  }

  begin(moving: Moving, row: StepRow): Begun {
    const step = stepDefinition(moving, row)
    if (step?.type !== 'approval') return stepRefused('It is no approval')
    const { execution, filling, sql, now } = moving
    const subject = this.open(sql, now, {
      ...{ execution, stepId: row.id, prompt: fillPlaceholders(step.prompt, filling).trim() },
      options: step.options?.map(({ label, value }) => ({ label, value })) ?? null,
      timeoutMs: stepTimeout(step),
      quorum: step.quorum ?? null,
    })
    return { subject, deadlineAt: null }
  }

  look({ sql }: Moving, { subject }: StepRow): Outcome | null {
    const { state, option, resolution_reason: why } = mustApproval(sql, subject ?? '')
    if (state === 'pending') return null
    if (state === 'approved') return { ok: true, output: option ?? 'Approved' }
    return { ...stepRefused(`Rejected: ${why ?? state}`), output: option ?? 'Rejected' }
  }

  /** Whoever approves a plan sees what {{input}} stands for, too. */
  openForPlan(
    sql: Sql,
    now: number,
    execution: ExecutionRow,
    steps: readonly OutlinedStep[],
  ): string {
    const { ability, inputs, words } = execution
    const prompt = `Run ${ability} with ${inputs}${words === '' ? '' : `, asked for as: ${words}`}`
    return this.open(sql, now, { ...untilTomorrow, execution, stepId: null, prompt, steps })
  }

  openForCancel(sql: Sql, now: number, execution: ExecutionRow, reason: string): string {
    const prompt = `The agent asks to cancel it: ${reason}`
    return this.open(sql, now, { ...untilTomorrow, execution, stepId: cancelStep, prompt })
  }

  /** Inside a commit: the approval's id. */
  open(sql: Sql, now: number, question: AbilityQuestion): string {
    const { execution, stepId, prompt, options, timeoutMs, quorum } = question
    const { id: executionId, ability, plan_hash: planHash, hash } = execution
    const id = this.#newId()
    const shown = question.steps === undefined ? {} : { steps: question.steps }
    const operation = { executionId, ability, hash, planHash, stepId, prompt, options, ...shown }
    const decision = this.#record(stepId === null ? 'ability-plan' : 'ability-approval', ability)
    const decisionSeq = recordOnRun(sql, now, execution.run_id, 'permission-decision', {
      ...decision,
    })
    openApproval(sql, now, {
      ...{ id, runId: execution.run_id, kind: 'ability' },
      asker: stepAsker(execution, quorum === null ? 'anybody' : 'others'),
      subject: stepId === null ? executionId : `${executionId}/${stepId}`,
      title: titleOf(ability, stepId, prompt),
      operation,
      operationHash: hashText(canonicalJson([planHash, stepId, prompt, options])),
      ...{ decisionSeq, decision, resumable: false },
      terms: {
        timeoutSeconds: Math.max(1, Math.ceil(timeoutMs / 1000)),
        ...{ group: null, quorum: quorum ?? 1, escalate: null },
      },
    })
    return id
  }

  #record(operation: string, ability: string): PermissionRecord {
    const { agent, subagent, mode, workspaceRoot, sessionPaths } = this.#policy.context(null, null)
    const { name, version } = this.#policy.effective('gate')
    return {
      ...{ by: 'state', decision: 'ask', rule: 'ability', policy: { name, version } },
      reason: `Ability "${ability}" asks a person`,
      request: {
        ...{ category: 'provider-tool', operation, tool: null, agent, subagent, mode },
        ...{ workspaceRoot, sessionPaths: [...sessionPaths], paths: [], command: null },
        ...{ hosts: [], risks: [] },
      },
      ...{ overrides: null, gate: null, grant: null, latencyMs: 0, askId: null },
      ...{ operationId: null, enclosure: this.#policy.enclosure() },
    }
  }
}

/** What nobody looks at is rejected after a day. */
const untilTomorrow = { options: null, quorum: null, timeoutMs: 86_400_000 }

/** Instead of a step: no step can be called so. */
const cancelStep = 'ability_cancel'

/** The newest question of the model whether this execution may be cancelled. */
export const cancelAskedFor = (
  sql: Sql,
  executionId: string,
): { id: string; state: ApprovalState; actor: string | null } | undefined =>
  sql.all<{ id: string; state: ApprovalState; actor: string | null }>(
    'select id, state, actor from approvals where subject = ? order by n desc limit 1',
    `${executionId}/${cancelStep}`,
  )[0]

const titleOf = (ability: string, stepId: string | null, prompt: string): string => {
  const what = stepId === null ? 'plan' : `step ${stepId}`
  const line = prompt.replaceAll(/\s+/g, ' ').slice(0, 100).toWellFormed()
  return `Ability ${ability}, ${what}: ${line}`
}
