import { z } from 'zod'
import { ApprovalId, AskId, OperationId } from './ids.ts'
import { PermissionDecision, PermissionOverrides, PermissionRequest } from './permission.ts'
import { GateTightening } from './policy.ts'

/**
 * The data of a `permission-decision` in a run's timeline: everything that `evaluatePermission` was given, but for the
 * policy, and what it said. Replay evaluates it again, so what is missing here would show as a difference that is none.
 */
export const PermissionRecord = z.object({
  /**
   * policy: evaluated, so it can be replayed. grant: a remembered approval. state: of the session or its sandbox, whatever
   * the policy says.
   */
  by: z.enum(['policy', 'grant', 'state']),
  request: PermissionRequest,
  /** What came with the request; those of the policy's own document are the policy's. */
  overrides: z
    .object({ agent: PermissionOverrides.nullable(), subagent: PermissionOverrides.nullable() })
    .nullable(),
  /** The session's own lists; null: they were not asked. */
  gate: GateTightening.pick({ deny: true, ask: true }).nullable(),
  ...PermissionDecision.shape,
  /** The approval that is remembered. */
  grant: ApprovalId.nullable(),
  /** Something in the request looked like a key and is not kept, so it cannot be decided again. */
  hidden: z.boolean().optional(),
  latencyMs: z.number(),
  /** One of these: the gate's question, or the operation of the API. */
  askId: AskId.nullable(),
  operationId: OperationId.nullable(),
})
export type PermissionRecord = z.infer<typeof PermissionRecord>
