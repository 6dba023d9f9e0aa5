import { z } from 'zod'

/** What a target answered to one attempt. Providers make it, evaluators read it; user data in it keeps its case. */

const ToolError = z.object({
  kind: z.enum(['error', 'unfinished']).describe('unfinished: the turn ended before the call did'),
  message: z.string(),
})
type ToolError = z.infer<typeof ToolError>

export const EvalToolCall = z.object({
  tool: z.string(),
  input: z.unknown().optional(),
  output: z.unknown().optional(),
  id: z.string().optional().describe("OpenCode's own, the same over retries"),
  error: ToolError.optional(),
  timestamp: z.string().optional(),
  durationMs: z.number().min(0).optional(),
})
export type EvalToolCall = z.infer<typeof EvalToolCall>

const OutputMessage = z.object({
  role: z.string(),
  name: z.string().optional(),
  content: z.unknown().optional(),
  toolCalls: z.array(EvalToolCall).optional(),
  timestamp: z.string().optional(),
  metadata: z.record(z.string(), z.unknown()).optional(),
})
type OutputMessage = z.infer<typeof OutputMessage>

const count = z.number().int().min(0)
export const TokenUsage = z.object({ input: count, output: count, cached: count.optional() })
export type TokenUsage = z.infer<typeof TokenUsage>

/** Names of tools are users' words: they are keys here and stay as they are. */
export const CallCounts = z.object({
  event_count: count.describe('Tool calls'),
  tool_names: z.array(z.string()).describe('Sorted'),
  tool_calls_by_name: z.record(z.string(), count),
  error_count: count,
})
export type CallCounts = z.infer<typeof CallCounts>

export const ProviderResponse = z.object({
  outputMessages: z.array(OutputMessage).default([]),
  cutCalls: CallCounts.optional().describe('Of tool calls that were too many to be kept'),
  tokenUsage: TokenUsage.optional(),
  costUsd: z.number().min(0).optional(),
  durationMs: z.number().min(0).optional(),
})
export type ProviderResponse = z.infer<typeof ProviderResponse>
