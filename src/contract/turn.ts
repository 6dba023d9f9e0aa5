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

/** How long a turn may stand still, and who does something about it then. SPEC TURN8 and TURN11 to TURN15 have them in words. */
export const turnPatience = {
  /** The agent looks at OpenCode so often, however quiet its stream is. */
  lookEveryMs: 5000,
  /** OpenCode has this long to answer a look. */
  probeMs: 5000,
  /** So many looks in a row without an answer or an event: it hangs. */
  missedProbes: 4,
  /** It answers and is busy, but nothing moves: neither an event of the turn nor a byte of the model, and nobody is asked. */
  quietMs: 15 * 60_000,
  /** The same while one of its tools runs: a long test run has nothing to say. */
  quietToolMs: 2 * 3_600_000,
  /** After an abort OpenCode has this long to come to rest; then it is killed and started anew. */
  abortMs: 5000,
  /** The control plane ends an aborted turn itself if the sandbox has not confirmed it by then. */
  confirmMs: 30_000,
  /** The agent says so often that it has the turn. */
  aliveEveryMs: 60_000,
  /** Without that word for this long the control plane has the agent connect again. */
  silentMs: 5 * 60_000,
  /** If the agent does not take the turn up then, the turn is over. */
  reconnectMs: 60_000,
} as const

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
