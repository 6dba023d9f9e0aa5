import { z } from 'zod'
import { CallerKey } from './ids.ts'
import type { Mode } from './mode.ts'
import type { Category } from './permission.ts'

/** What a gateway tool answers; a `success: false` is an answer like any other and is replayed. */
export const ToolResult = z.object({
  success: z.boolean(),
  result: z.string(),
  data: z.record(z.string(), z.unknown()).optional(),
})
export type ToolResult = z.infer<typeof ToolResult>

/** The body of `POST /proliferate/:sessionId/tools/:toolName`. */
export const ToolCallback = z.strictObject({
  tool_call_id: CallerKey,
  args: z.record(z.string(), z.unknown()).default({}),
})
export type ToolCallback = z.infer<typeof ToolCallback>

export const CallState = z.enum(['pending', 'settled', 'failed', 'unknown'])
export type CallState = z.infer<typeof CallState>

export const ToolCall = z.object({
  tool: z.string(),
  toolCallId: z.string(),
  operationId: z.string(),
  state: CallState,
  generation: z.number().int(),
  attempts: z.number().int(),
  conflicts: z.number().int().describe('How often the id came again with other arguments'),
  args: z.unknown(),
  response: ToolResult.nullable(),
  error: z.string().nullable(),
  startedAt: z.number(),
  settledAt: z.number().nullable(),
})
export type ToolCall = z.infer<typeof ToolCall>

/**
 * What a session may have beside what the agent contract gives to all. Nothing of it is there unless the session, or the
 * agent that it was started with, names it.
 */
export const Equipment = z.enum(['memory', 'skills', 'abilities'])
export type Equipment = z.infer<typeof Equipment>

/** How a tool shows itself to the model and to the wrapper in the sandbox. */
export interface ToolDefinition<A extends z.ZodType = z.ZodType> {
  name: string
  /** Other spellings that fold to `name` before the idempotency key is made. */
  aliases: readonly string[]
  domain: 'gateway' | 'sandbox'
  /** The modes that have it, at injection and in the handler. Absent: every mode. */
  modes?: readonly Mode[]
  /** Only sessions that have it get the tool: Gantry's own, outside the contract. Absent: every session. */
  needs?: Equipment
  /** What policies take a use of an own tool for. Absent: provider-tool. */
  category?: Category
  /** OpenCode names a tool after its file. Absent: the name, with what a file name cannot hold replaced by "_". */
  fileName?: string
  /** The argument that the wrapper sends as tool_call_id. Absent: a fresh id per call. */
  callIdFrom?: string
  /** What a sandbox-local tool answers at once. */
  localAnswer?: string
  args: A
  /** One line for the model's tool list. */
  description: string
  /** The companion `.txt`: when and how to use it. */
  guidance: string
  /** Same id, other arguments: refuse with 409, or settle nothing and answer `success: false`. */
  onConflict: 'refuse' | 'answer'
}

/** A tool of the contract says where it is available. */
export interface ContractTool<A extends z.ZodType = z.ZodType> extends ToolDefinition<A> {
  modes: readonly Mode[]
  fileName: string
}

export const maxArgsBytes = 256 * 1024
export const maxArtifactBytes = 8 * 1024 * 1024
export const maxArtifactFiles = 100
export const maxArtifactTotalBytes = 32 * 1024 * 1024
