import { z } from 'zod'
import { maxAbilityBytes, OfferedName } from '../ability.ts'
import { ExecutionId, Text } from '../ids.ts'
import type { ToolDefinition } from '../tool.ts'

/** What the model may do about abilities. It can propose to end one, and never skip, reorder or change a step. */
const common = { domain: 'gateway', needs: 'abilities', onConflict: 'refuse' } as const

const Which = z.strictObject({
  execution_id: ExecutionId.optional().describe('Default: the one that runs in this session'),
})

export const abilityListTool = {
  ...common,
  name: 'ability_list',
  aliases: ['ability.list'],
  args: z.strictObject({}),
  description: 'List the abilities of this session: workflows that Gantry runs step by step.',
  guidance: [
    'Look here before you release, deploy, upgrade or do anything else that a team may have written down as steps.',
    'An ability that has problems cannot be run; the list says why.',
  ].join('\n'),
} as const satisfies ToolDefinition

export const abilityRunTool = {
  ...common,
  name: 'ability_run',
  aliases: ['ability.run'],
  args: z.strictObject({
    name: OfferedName.describe('As ability_list gives it'),
    inputs: z.record(z.string().max(100), z.unknown()).default({}),
    input: Text(32 * 1024)
      .default('')
      .describe('What you were asked for, in the words of whoever asked'),
  }),
  description: 'Run an ability. It answers at once; the steps run outside of this conversation.',
  guidance: [
    'One ability runs at a time. While it runs, you can only use what its current step allows.',
    'After it has started, end your turn: steps that are yours come to you as messages. Do not do the work of its steps by hand.',
  ].join('\n'),
} as const satisfies ToolDefinition

export const abilityStatusTool = {
  ...common,
  name: 'ability_status',
  aliases: ['ability.status'],
  args: Which,
  description: 'See which ability runs, at which step it is, and how its steps went.',
  guidance: 'Use it to report, not to wait: a step that is yours comes to you as a message.',
} as const satisfies ToolDefinition

export const abilityCancelTool = {
  ...common,
  name: 'ability_cancel',
  aliases: ['ability.cancel'],
  args: Which.extend({ reason: Text(2000, 1).describe('Why it should not go on') }),
  description: 'End the ability that runs, or ask a person to end it if it is a strict one.',
  guidance: [
    'Only if going on would be wrong. A strict ability goes on until a person agrees.',
    'Ended steps stay as they are; nothing is undone.',
  ].join('\n'),
} as const satisfies ToolDefinition

export const abilityAgentTool = {
  ...common,
  name: 'ability_agent',
  aliases: ['ability.agent'],
  args: z.strictObject({}),
  description: 'List the abilities that the agent of this session may run.',
  guidance: 'Others of the project are for other agents.',
} as const satisfies ToolDefinition

export const abilityValidateTool = {
  ...common,
  name: 'ability_validate',
  aliases: ['ability.validate'],
  args: z.strictObject({
    source: z.string().min(1).max(maxAbilityBytes).describe('The text of an ability.yaml'),
    path: Text(1000).optional().describe('Where it is, such as deploy/ability.yaml'),
  }),
  description: 'Check the text of an ability and name every mistake in it; nothing is stored.',
  guidance: 'Use it when you write or change an ability for people to review.',
} as const satisfies ToolDefinition
