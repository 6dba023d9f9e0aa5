import { AppError } from '../../contract/error.ts'
import type { ToolResult } from '../../contract/tool.ts'
import type { GatewayTool } from '../gateway/tools.ts'
import type { CallAnswer, ToolCallInput } from './api.ts'

/** Characters, which may be three bytes each, and are quoted once more on their way to libSQL: no row passes 1 MiB. */
const maxResponseLength = 256 * 1024

export function refuseConflict(tool: GatewayTool, call: ToolCallInput): CallAnswer {
  const message = `tool_call_id "${call.toolCallId}" was used for "${call.tool}" with other arguments`
  if (tool.definition.onConflict === 'refuse') throw new AppError('call_conflict', message)
  return {
    body: JSON.stringify({ success: false, result: message } satisfies ToolResult),
    replayed: false,
  }
}

export function invalidArguments(error: {
  issues: { path: PropertyKey[]; message: string }[]
}): ToolResult {
  const list = error.issues.map(
    (issue) => `${issue.path.map(String).join('.') || 'args'}: ${issue.message}`,
  )
  return { success: false, result: `Invalid arguments: ${list.join(', ')}` }
}

export function fitting(result: ToolResult): ToolResult {
  const { length } = JSON.stringify(result)
  if (length > maxResponseLength) throw new Error(`The answer has ${length} characters`)
  return result
}
