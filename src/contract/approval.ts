import { z } from 'zod'
import { ApprovalId, RunId, SessionId, Text } from './ids.ts'

export const ApprovalState = z.enum(['pending', 'approved', 'rejected', 'cancelled'])
export type ApprovalState = z.infer<typeof ApprovalState>

export const Approval = z.object({
  id: ApprovalId,
  runId: RunId,
  sessionId: SessionId,
  kind: z.enum(['gate', 'operation']).describe('gate: a tool call is parked until it is resolved'),
  state: ApprovalState,
  asker: z.object({
    kind: z.enum(['sandbox', 'key']),
    id: z.string().describe('The generation of the sandbox, or the key'),
    owner: z.string().nullable(),
  }),
  subject: z.string().describe('The question or the operation that it is about'),
  title: z.string().describe('The tool, or category and operation'),
  operation: z.unknown().describe('What would be done'),
  operationHash: z.string().describe('An approval holds for exactly these bytes'),
  decisionSeq: z.number().int().describe('The permission decision in the timeline'),
  reason: z.string(),
  rule: z.string(),
  policy: z.object({ name: z.string(), version: z.number().int() }),
  group: z
    .array(z.string())
    .nullable()
    .describe('Keys that may resolve it; null: any with the scope'),
  quorum: z.number().int(),
  escalatesAt: z.number().nullable(),
  escalation: z.array(z.string()).nullable().describe('Keys that may resolve it after that'),
  votes: z.array(
    z.object({
      keyId: z.string(),
      owner: z.string(),
      reason: z.string(),
      at: z.number(),
    }),
  ),
  resumable: z.boolean().describe('Whether an operation waits for it'),
  createdAt: z.number(),
  deadlineAt: z.number(),
  remembered: z
    .object({ scope: z.enum(['run', 'session']), expiresAt: z.number() })
    .nullable()
    .describe('Until then exactly this operation is allowed again; revoking ends it at once'),
  resolution: z
    .object({
      actor: z.string().describe('A key id, "deadline", or the act that ended it'),
      owner: z.string().nullable(),
      reason: z.string(),
      at: z.number(),
    })
    .nullable(),
})
export type Approval = z.infer<typeof Approval>

export const ApprovalResolve = z.strictObject({
  resolution: z.enum(['approved', 'rejected', 'cancelled']),
  reason: Text(2000).default(''),
  operationHash: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .optional()
    .describe('What the person has seen: if it is not what is asked, nothing is resolved'),
  remember: z
    .strictObject({
      scope: z.enum(['run', 'session']),
      expiresInSeconds: z
        .number()
        .int()
        .min(1)
        .max(30 * 86_400)
        .default(3600),
    })
    .optional()
    .describe('Allow exactly this operation again without asking'),
})
export type ApprovalResolve = z.infer<typeof ApprovalResolve>

export const ApprovalRevoke = z.strictObject({ reason: Text(2000, 1) })
export type ApprovalRevoke = z.infer<typeof ApprovalRevoke>
