import { z } from 'zod'
import { RunId, SessionId, Text, TurnId } from './ids.ts'

export const TurnState = z.enum([
  'queued',
  'running',
  'completed',
  'failed',
  'aborted',
  'interrupted',
])
export type TurnState = z.infer<typeof TurnState>
export const turnEnds = ['completed', 'failed', 'aborted', 'interrupted'] as const

export const maxQueuedTurns = 20

export const PromptCreate = z.strictObject({
  text: Text(200_000, 1),
  runId: RunId.optional().describe("Default: the session's open run, else a new one"),
  steer: z
    .boolean()
    .default(false)
    .describe('Merge into the running turn at its next step instead of queueing a turn'),
})
export type PromptCreate = z.infer<typeof PromptCreate>

export const Turn = z.object({
  id: TurnId,
  sessionId: SessionId,
  runId: RunId.nullable(),
  state: TurnState,
  position: z.number().int().nullable().describe('Place in the queue, from 1; null unless queued'),
  prompt: z.string(),
  text: z.string().nullable().describe('The last text of the assistant'),
  reason: z.string().nullable().describe('Why it failed, was aborted or interrupted'),
  tokens: z.object({ input: z.number(), output: z.number() }),
  createdAt: z.number(),
  startedAt: z.number().nullable(),
  endedAt: z.number().nullable(),
})
export type Turn = z.infer<typeof Turn>
