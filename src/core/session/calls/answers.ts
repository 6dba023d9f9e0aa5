import { AppError } from '../../../contract/error.ts'
import type { ToolResult } from '../../../contract/tool.ts'
import { toolFileName } from '../../../contract/tools.ts'
import type { GatewayTool } from './tools/tool.ts'

export interface ToolCallInput {
  /** Canonical: the alias is already folded. */
  tool: string
  toolCallId: string
  args: Record<string, unknown>
}

export interface CallAnswer {
  /** The exact bytes of `{success, result, data?}`: equal for every caller with this id. */
  body: string
  replayed: boolean
}

/** Characters, which may be three bytes each, and are quoted once more on their way to libSQL: no row passes 1 MiB. */
const maxResponseLength = 256 * 1024

export function conflictAnswer(tool: GatewayTool, call: ToolCallInput): CallAnswer {
  const message = `tool_call_id "${call.toolCallId}" was used for "${call.tool}" with other arguments`
  if (tool.definition.onConflict === 'refuse') throw new AppError('call_conflict', message)
  return {
    body: JSON.stringify({ success: false, result: message } satisfies ToolResult),
    replayed: false,
  }
}

export function invalidArgumentsAnswer(error: {
  issues: { path: PropertyKey[]; keys?: string[]; message: string }[]
}): ToolResult {
  const list = error.issues.map(({ path, keys = [], message }) => {
    const field = [...path, ...keys.slice(0, 1)].map(String).join('.').slice(0, 200)
    return `${field || 'args'}: ${message}`
  })
  return { success: false, result: `Invalid arguments: ${list.join(', ')}` }
}

interface Issue {
  code?: string | undefined
  path: PropertyKey[]
  keys?: string[]
}

/**
 * Arguments that do not fit are kept without the parts that do not: a value may stand where the tool has no field for it,
 * such as a secret beside the name of its variable.
 */
export const withoutUnfit = (args: unknown, { issues }: { issues: Issue[] }): unknown =>
  issues
    .flatMap(({ path, keys }) => (keys ? keys.map((key) => [...path, key]) : [path]))
    .reduce(withoutAt, args)

/** The same for what OpenCode tells of a call to one of the contract's tools. */
export function withoutUnfitCallInput(
  tools: readonly Pick<GatewayTool, 'definition'>[],
  data: Record<string, unknown>,
): Record<string, unknown> {
  const tool = tools.find(({ definition }) => toolFileName(definition) === data['tool'])
  const parsed = tool && 'input' in data ? tool.definition.args.safeParse(data['input']) : null
  return parsed?.error ? { ...data, input: withoutUnfit(data['input'], parsed.error) } : data
}

function withoutAt(value: unknown, [first, ...rest]: PropertyKey[]): unknown {
  if (first === undefined) return notKept(value)
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, first)) return value
  const item = withoutAt((value as Record<PropertyKey, unknown>)[first], rest)
  return Array.isArray(value) ? value.with(Number(first), item) : { ...value, [first]: item }
}

function notKept(value: unknown): unknown {
  if (value === undefined || value === null) return value
  if (typeof value === 'string') return `[not kept: text of ${value.length} characters]`
  return `[not kept: ${Array.isArray(value) ? 'list' : typeof value}]`
}

export function fittingAnswer(result: ToolResult): ToolResult {
  const { length } = JSON.stringify(result)
  if (length > maxResponseLength) throw new Error(`The answer has ${length} characters`)
  return result
}
