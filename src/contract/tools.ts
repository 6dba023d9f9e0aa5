import { z } from 'zod'
import type { Mode } from './mode.ts'
import type { ContractTool, Equipment, ToolDefinition } from './tool.ts'
import { automationCompleteTool } from './tools/automation-complete.ts'
import {
  memoryGetTool,
  memorySaveTool,
  memorySearchTool,
  memoryUpdateTool,
} from './tools/memory.ts'
import { requestEnvVariablesTool } from './tools/request-env-variables.ts'
import { saveEnvFilesTool } from './tools/save-env-files.ts'
import { saveServiceCommandsTool } from './tools/save-commands.ts'
import { saveSnapshotTool } from './tools/save-snapshot.ts'
import { verifyTool } from './tools/verify.ts'

export {
  automationCompleteTool,
  memoryGetTool,
  memorySaveTool,
  memorySearchTool,
  memoryUpdateTool,
  requestEnvVariablesTool,
  saveEnvFilesTool,
  saveServiceCommandsTool,
  saveSnapshotTool,
  verifyTool,
}

/** The agent contract's tools, all of them. */
export const contractTools: readonly ContractTool[] = [
  verifyTool,
  saveSnapshotTool,
  saveServiceCommandsTool,
  saveEnvFilesTool,
  automationCompleteTool,
  requestEnvVariablesTool,
]

/** Those that answer in the sandbox itself: they are in the manifest, and no callback comes for them. */
export const sandboxTools = contractTools.filter(({ domain }) => domain === 'sandbox')

export const isToolInMode = (tool: ToolDefinition, mode: Mode): boolean =>
  tool.modes === undefined || tool.modes.includes(mode)

export const toolsForMode = (mode: Mode): ContractTool[] =>
  contractTools.filter((tool) => isToolInMode(tool, mode))

/** What decides which tools a session has. */
export interface Equipped {
  mode: Mode
  equipment?: readonly Equipment[]
}

/** Whether the session has the tool: its files, its place in the guide, and its handler. */
export const isToolOf = (tool: ToolDefinition, { mode, equipment = [] }: Equipped): boolean =>
  isToolInMode(tool, mode) && isEquippedFor(tool, equipment)

const isEquippedFor = ({ needs }: ToolDefinition, equipment: readonly Equipment[]): boolean =>
  needs === undefined || equipment.includes(needs)

/** By name or alias. */
export const findContractTool = (name: string): ContractTool | undefined =>
  contractTools.find((tool) => tool.name === name || tool.aliases.includes(name))

/** What the handler answers where the session does not have the tool, after it has checked the arguments; null: it may run. */
export function toolRefusal(
  tool: ToolDefinition,
  { mode, equipment = [] }: Equipped,
): string | null {
  if (!isToolInMode(tool, mode))
    return `"${tool.name}" is available in ${tool.modes?.join(' and ')} sessions only; this is a ${mode} session`
  if (isEquippedFor(tool, equipment)) return null
  return `"${tool.name}" is for sessions with ${tool.needs}, and this one was created without: create a session that names ${tool.needs}, or an agent that has it`
}

export const toolFileName = (tool: ToolDefinition): string =>
  tool.fileName ?? tool.name.replaceAll(/[^A-Za-z0-9_-]/g, '_')

/** What the model is shown: the schema of the arguments as sent, before spellings are folded and defaults filled in. */
export const toolJsonSchema = (tool: ToolDefinition) =>
  z.toJSONSchema(tool.args, { io: 'input', unrepresentable: 'any' })
