import { z } from 'zod'
import { ApprovalId, RunId, SessionId, Text } from './ids.ts'
import { Category, Risk } from './permission.ts'

export const ApprovalState = z.enum(['pending', 'approved', 'rejected', 'cancelled'])
export type ApprovalState = z.infer<typeof ApprovalState>

/** What would be done, in the words that a person decides on. Long texts are cut here; `operation` has all of it. */
export const ApprovalDetails = z.object({
  category: Category,
  risks: z.array(Risk),
  tool: z.string().nullable().describe('null: an operation of the API'),
  agent: z.string().nullable(),
  subagent: z.string().nullable(),
  command: z.string().nullable(),
  cwd: z.string().nullable().describe('Where the command starts; null: in the workspace'),
  paths: z.array(z.string()),
  hosts: z.array(z.string()),
  patch: z
    .string()
    .nullable()
    .describe('What is changed: a patch, or lines that go (-) and lines that come (+)'),
  arguments: z.string().nullable().describe('Whatever else it is given, as JSON'),
  truncated: z.boolean().describe('Something was too long to be shown here'),
})
export type ApprovalDetails = z.infer<typeof ApprovalDetails>

export const Approval = z.object({
  id: ApprovalId,
  runId: RunId,
  intent: z.string().describe("The run's"),
  sessionId: SessionId,
  sessionTitle: z.string().nullable(),
  project: z.string(),
  kind: z
    .enum(['gate', 'operation', 'ability', 'eval'])
    .describe(
      'gate: a tool call is parked until it is resolved; ability: a step or a plan waits; eval: answered at once, as the target of an eval run says',
    ),
  state: ApprovalState,
  asker: z.object({
    kind: z.enum(['sandbox', 'ability', 'key']),
    id: z.string().describe('The generation of the sandbox, the execution, or the key'),
    owner: z.string().nullable().describe('Of the key, or of that which has started the execution'),
  }),
  subject: z.string().describe('The question or the operation that it is about'),
  title: z.string().describe('The tool, or category and operation, and what it is about'),
  details: ApprovalDetails,
  operation: z.unknown().describe('What would be done'),
  operationHash: z.string().describe('An approval holds for exactly these bytes'),
  decisionSeq: z.number().int().describe('The permission decision in the timeline'),
  reason: z.string(),
  rule: z.string(),
  policy: z.object({ name: z.string(), version: z.number().int() }),
  group: z
    .array(z.string())
    .nullable()
    .describe('Members and keys that may resolve it; null: any with the scope'),
  quorum: z.number().int(),
  escalatesAt: z.number().nullable(),
  escalation: z
    .array(z.string())
    .nullable()
    .describe('Members and keys that may resolve it after that'),
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
      option: z.string().nullable().optional().describe('Of those that an ability offers'),
    })
    .nullable(),
})
export type Approval = z.infer<typeof Approval>

/** How long there is, and where to answer. */
const ApprovalAnswer = z.object({
  secondsLeft: z
    .number()
    .int()
    .nullable()
    .describe('Until the deadline rejects it; null: resolved'),
  answer: z
    .object({
      method: z.literal('POST'),
      url: z.string(),
      scope: z.literal('approve'),
      resolutions: z.array(z.enum(['approved', 'rejected', 'cancelled'])),
      body: z
        .object({ resolution: z.literal('approved'), operationHash: z.string() })
        .describe('With one of the resolutions, and a reason if you like'),
    })
    .nullable()
    .describe('null: it is resolved'),
})
type ApprovalAnswer = z.infer<typeof ApprovalAnswer>

/** As callers of the API see it. */
export const ShownApproval = Approval.extend(ApprovalAnswer.shape)
export type ShownApproval = z.infer<typeof ShownApproval>

/** From libSQL, so it may be a moment older. What a release without them has stored has no details. */
export const InboxEntry = Approval.pick({
  id: true,
  runId: true,
  sessionId: true,
  sessionTitle: true,
  kind: true,
  state: true,
  title: true,
  operationHash: true,
  reason: true,
  rule: true,
  quorum: true,
  createdAt: true,
  deadlineAt: true,
}).extend({
  intent: Approval.shape.intent.nullable(),
  project: z.string().nullable(),
  details: ApprovalDetails.nullable(),
  policy: Approval.shape.policy.nullable(),
  asker: z.object({
    kind: Approval.shape.asker.shape.kind,
    id: z.string().nullable(),
    owner: z.string().nullable(),
  }),
  resolvedAt: z.number().nullable(),
  actor: z.string().nullable(),
  ...ApprovalAnswer.shape,
})
export type InboxEntry = z.infer<typeof InboxEntry>

export const ApprovalResolve = z.strictObject({
  resolution: z.enum(['approved', 'rejected', 'cancelled']),
  reason: Text(2000).default(''),
  operationHash: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .optional()
    .describe('What the person has seen: if it is not what is asked, nothing is resolved'),
  option: Text(200, 1)
    .optional()
    .describe('The value of one of the options that an ability offers'),
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

type Open = Pick<Approval, 'id' | 'state' | 'operationHash' | 'deadlineAt'>

/** How long there is and where to answer: `baseUrl` is how callers reach the deployment. */
export function approvalAnswer(now: number, baseUrl: string, approval: Open): ApprovalAnswer {
  const { id, state, operationHash, deadlineAt } = approval
  if (state !== 'pending') return { secondsLeft: null, answer: null }
  return {
    secondsLeft: Math.max(0, Math.ceil((deadlineAt - now) / 1000)),
    answer: {
      method: 'POST',
      url: `${baseUrl.replace(/\/$/, '')}/v1/approvals/${id}/resolve`,
      scope: 'approve',
      resolutions: ['approved', 'rejected', 'cancelled'],
      body: { resolution: 'approved', operationHash },
    },
  }
}
