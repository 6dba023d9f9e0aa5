import { z } from 'zod'
import { AskId, SessionId, Text } from './ids.ts'

export const GateDecision = z.enum(['allow', 'deny'])
export type GateDecision = z.infer<typeof GateDecision>

/** A question that the gate parked for a person. */
export const Ask = z.object({
  id: AskId,
  sessionId: SessionId,
  tool: z.string(),
  callId: z.string(),
  input: z.unknown(),
  state: z.enum(['open', 'answered']),
  decision: GateDecision.nullable(),
  reason: z.string().nullable(),
  actor: z
    .string()
    .nullable()
    .describe('Who answered: a key id, "rule", "deadline" or the act that ended it'),
  askedAt: z.number(),
  deadlineAt: z.number().nullable(),
  answeredAt: z.number().nullable(),
})
export type Ask = z.infer<typeof Ask>

export const AskAnswer = z.strictObject({ decision: GateDecision, reason: Text(2000).default('') })
export type AskAnswer = z.infer<typeof AskAnswer>
