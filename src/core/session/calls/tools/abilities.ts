// The model's way to abilities. It can look, start one, and ask for its end: which step runs, and what a step is, is not
// its to say. Repeatable: an execution carries the operation's id, so that however often a call runs there is one.

import type { AbilityChecked } from '../../../../contract/ability.ts'
import type { Execution, ExecutionRecord } from '../../../../contract/execution.ts'
import type { OfferedAbility } from '../../../../contract/offered-ability.ts'
import type { ToolResult } from '../../../../contract/tool.ts'
import {
  abilityAgentTool,
  abilityCancelTool,
  abilityListTool,
  abilityRunTool,
  abilityStatusTool,
  abilityValidateTool,
} from '../../../../contract/tools/abilities.ts'
import { checkAbilityDefinition } from '../../../abilities/definition.ts'
import { gatewayTool } from './tool.ts'

export const abilityList = gatewayTool({
  definition: abilityListTool,
  repeatable: true,
  run(_args, { abilities }) {
    const { items } = abilities.offered()
    return listed(items, 'There are no abilities in this session')
  },
})

export const abilityAgent = gatewayTool({
  definition: abilityAgentTool,
  repeatable: true,
  run(_args, { abilities }) {
    const { items, agent } = abilities.offered()
    const own = items.filter(({ runnable }) => runnable)
    const found = listed(own, `The agent "${agent}" may run no ability here`)
    return { ...found, data: { agent, ...found.data } }
  },
})

function listed(items: readonly OfferedAbility[], none: string): ToolResult {
  const lines = items.map(({ name, description, problems, needsApproval }) => {
    const asks = needsApproval ? ' (a person approves it first)' : ''
    const wrong = problems.length > 0 ? `\n  cannot be run: ${problems.join('; ')}` : ''
    return `- ${name}: ${description}${asks}${wrong}`
  })
  return { success: true, result: lines.join('\n') || none, data: { items } }
}

export const abilityRun = gatewayTool({
  definition: abilityRunTool,
  repeatable: true,
  async run({ name, inputs, input }, { abilities }) {
    const offered = abilities.offered().items.find((one) => one.name === name)
    if (offered === undefined) {
      const names = abilities.offered().items.map((one) => one.name)
      const result = `There is no ability "${name}" in this session; there are: ${names.join(', ') || 'none'}`
      return { success: false, result }
    }
    if (!offered.runnable)
      return { success: false, result: `Cannot run "${name}": ${offered.problems.join('; ')}` }
    const { version } = offered
    const execution = await abilities.run({
      ability: name,
      inputs,
      input,
      ...(version !== null && { version }),
    })
    const waits = execution.waitsFor.map(({ why }) => why)
    const next =
      waits.length > 0
        ? `It waits for a person: ${waits.join('; ')}`
        : 'Its steps run outside of this conversation: end your turn now'
    return {
      success: true,
      result: `Started "${name}" as ${execution.id}. ${next}.`,
      data: { execution },
    }
  },
})

export const abilityStatus = gatewayTool({
  definition: abilityStatusTool,
  repeatable: true,
  run({ execution_id: id }, { abilities }) {
    const record = abilities.status(id ?? null)
    if (record === null) return { success: true, result: 'No ability runs in this session' }
    return { success: true, result: statusText(record), data: { execution: withoutSteps(record) } }
  },
})

export const abilityCancel = gatewayTool({
  definition: abilityCancelTool,
  repeatable: true,
  run({ execution_id: id, reason }, { abilities }) {
    const asked = abilities.cancel(id ?? null, reason)
    if (asked === null) return { success: false, result: 'No ability runs in this session' }
    const { execution, approvalId } = asked
    const { ability } = execution
    if (approvalId === null)
      return {
        success: true,
        result: `Cancelled "${ability}". It is on record that you did.`,
        data: { execution },
      }
    const result = `"${ability}" is strict: a person was asked to end it (${approvalId}). It goes on until then.`
    return { success: false, result, data: { approvalId, execution } }
  },
})

export const abilityValidate = gatewayTool({
  definition: abilityValidateTool,
  repeatable: true,
  run(args) {
    const { path } = args
    const checked = checkAbilityDefinition({
      source: args.source,
      ...(path !== undefined && { path }),
    })
    const { valid, errors, warnings } = checked
    return { success: valid, result: checkedText(checked), data: { valid, errors, warnings } }
  },
})

function checkedText({ valid, errors, warnings, ability }: AbilityChecked): string {
  const wrong = errors.map(
    ({ path, line, column, code, message }) =>
      `- line ${line}, column ${column} ${path}: ${code}: ${message}`,
  )
  const odd = warnings.map((warning) => `- warning: ${warning}`)
  if (!valid) return ['It cannot run:', ...wrong].join('\n')
  const order = ability?.order.join(' → ') ?? ''
  return [`"${ability?.name}" can run: ${order}`, ...odd].join('\n')
}

function statusText(record: ExecutionRecord): string {
  const { ability, id, status, progress, steps, error, waitsFor } = record
  return [
    `${ability} (${id}): ${status}, ${progress} steps done${error === null ? '' : `: ${error}`}`,
    ...steps.map(
      (step) =>
        `- ${step.stepId} (${step.type}): ${step.status}${step.error === null ? '' : `: ${step.error.slice(0, 500)}`}`,
    ),
    ...waitsFor.map(({ why }) => `It waits for a person: ${why}`),
  ].join('\n')
}

function withoutSteps({ steps, ...execution }: ExecutionRecord): Execution & { steps: object[] } {
  return {
    ...execution,
    steps: steps.map(({ stepId, type, status }) => ({ stepId, type, status })),
  }
}
