import { z } from '@hono/zod-openapi'
import { Text } from '../../contract/ids.ts'
import * as schemas from '../../contract/operation.ts'
import {
  Attempt,
  DiscardReport,
  IsolationPlan,
  MergeReport,
  Operation,
  OperationPreflight,
  OperationRecord,
  RetryEvaluation,
  RetryPolicy,
} from '../../contract/operation.ts'
import { params } from '../kit/openapi.ts'
import { created, ok, route } from '../kit/route.ts'
import { nameSchemas, namedSchema } from '../kit/openapi-schemas.ts'

nameSchemas(schemas)

const tag = 'operations'
const WaitQuery = z.strictObject({
  wait: z.coerce.number().min(0).max(60).default(0).describe('Seconds to wait for its result'),
})
const OperationExecute = namedSchema(
  'OperationExecute',
  z.strictObject({
    operation: Operation,
    evaluateOnly: z
      .boolean()
      .default(false)
      .describe('Decide and record only: an approval of it resumes nothing'),
  }),
)
const OperationPlan = namedSchema('OperationPlan', z.strictObject({ operation: Operation }))
const Retry = namedSchema(
  'OperationRetry',
  z.strictObject({
    policy: RetryPolicy.default('never').describe('Without one, nothing is retried'),
  }),
)
const Abandon = namedSchema('AttemptAbandon', z.strictObject({ reason: Text(2000, 1) }))

export const operationRoutes = [
  route({
    id: 'executeOperation',
    method: 'post',
    path: '/v1/runs/{runId}/operations',
    summary: 'Decide on an operation, record it, and block, park or execute it',
    tag,
    guard: 'write',
    params: params.run,
    body: OperationExecute,
    idempotent: true,
    answers: created(OperationRecord, 'The operation'),
    refuses: ['not_found', 'wrong_state', 'key_conflict', 'session_closed', 'too_large'],
    answer: ({ session, caller, params: { runId }, body, idempotencyKey }) =>
      session.operations.execute(caller, runId, body.operation, {
        evaluateOnly: body.evaluateOnly,
        idempotencyKey,
      }),
  }),

  route({
    id: 'planOperation',
    method: 'post',
    path: '/v1/sessions/{sessionId}/operations/plan',
    summary: 'How an operation would be isolated; nothing is done or recorded',
    tag,
    guard: 'read',
    params: params.session,
    body: OperationPlan,
    answers: ok(IsolationPlan, 'The plan'),
    refuses: ['not_found'],
    answer: ({ session, caller, body }) => session.operations.plan(caller, body.operation),
  }),

  route({
    id: 'preflightOperation',
    method: 'post',
    path: '/v1/runs/{runId}/preflight',
    summary:
      'What would be decided on an operation, and how it would be isolated; nothing is done or recorded',
    tag,
    guard: 'read',
    params: params.run,
    body: OperationPlan,
    answers: ok(OperationPreflight, 'Decision and plan'),
    refuses: ['not_found', 'wrong_state', 'too_large'],
    answer: ({ session, caller, params: { runId }, body }) =>
      session.operations.preflight(caller, runId, body.operation),
  }),

  route({
    id: 'getOperation',
    method: 'get',
    path: '/v1/operations/{operationId}',
    summary: 'Get an operation with its attempts, or wait for its result',
    tag,
    guard: 'read',
    params: params.operation,
    query: WaitQuery,
    answers: ok(OperationRecord, 'The operation'),
    refuses: ['not_found'],
    answer: ({ session, caller, params: { operationId }, query }) =>
      session.operations.get(caller, operationId, query.wait * 1000),
  }),

  route({
    id: 'resumeApproval',
    method: 'post',
    path: '/v1/approvals/{approvalId}/resume',
    summary: 'Execute what was approved, without asking the policy again',
    tag,
    guard: 'write',
    params: params.approval,
    answers: ok(OperationRecord, 'The operation'),
    refuses: ['not_found', 'wrong_state', 'session_closed'],
    answer: ({ session, caller, params: { approvalId } }) =>
      session.operations.resume(caller, approvalId),
  }),

  route({
    id: 'evaluateRetry',
    method: 'get',
    path: '/v1/operations/{operationId}/retry',
    summary: 'Whether another attempt would be allowed; reads only',
    tag,
    guard: 'read',
    params: params.operation,
    query: Retry,
    answers: ok(RetryEvaluation, 'The evaluation'),
    refuses: ['not_found'],
    answer: ({ session, caller, params: { operationId }, query }) =>
      session.operations.evaluateRetry(caller, operationId, query.policy),
  }),

  route({
    id: 'admitRetry',
    method: 'post',
    path: '/v1/operations/{operationId}/retries',
    summary: 'Admit a retry: the next attempt is reserved, and nothing runs',
    tag,
    guard: 'write',
    params: params.operation,
    body: Retry,
    answers: created(Attempt, 'The attempt'),
    refuses: ['not_found', 'wrong_state'],
    answer: ({ session, caller, params: { operationId }, body }) =>
      session.operations.admitRetry(caller, operationId, body.policy),
  }),

  route({
    id: 'executeAttempt',
    method: 'post',
    path: '/v1/attempts/{attemptId}/execute',
    summary: 'Execute an attempt that was admitted',
    tag,
    guard: 'write',
    params: params.attempt,
    answers: ok(OperationRecord, 'The operation'),
    refuses: ['not_found', 'wrong_state', 'session_closed'],
    answer: ({ session, caller, params: { attemptId } }) =>
      session.operations.executeAttempt(caller, attemptId),
  }),

  route({
    id: 'abandonAttempt',
    method: 'post',
    path: '/v1/attempts/{attemptId}/abandon',
    summary: 'Give up a reserved attempt; nothing is executed or retried',
    tag,
    guard: 'write',
    params: params.attempt,
    body: Abandon,
    answers: ok(Attempt, 'The attempt'),
    refuses: ['not_found', 'wrong_state'],
    answer: ({ session, caller, params: { attemptId }, body }) =>
      session.operations.abandon(caller, attemptId, body.reason),
  }),

  route({
    id: 'mergeAttempt',
    method: 'post',
    path: '/v1/attempts/{attemptId}/merge',
    summary: "Bring an attempt's worktree into the workspace",
    tag,
    guard: 'write',
    params: params.attempt,
    answers: ok(MergeReport, 'What came of it'),
    refuses: ['not_found', 'wrong_state', 'session_closed', 'sandbox_unavailable'],
    answer: ({ session, caller, params: { attemptId } }) =>
      session.operations.merge(caller, attemptId),
  }),

  route({
    id: 'discardAttempt',
    method: 'post',
    path: '/v1/attempts/{attemptId}/discard',
    summary: "Drop an attempt's worktree branch: it cannot be merged any more",
    tag,
    guard: 'write',
    params: params.attempt,
    answers: ok(DiscardReport, 'What came of it'),
    refuses: ['not_found', 'wrong_state', 'session_closed', 'sandbox_unavailable'],
    answer: ({ session, caller, params: { attemptId } }) =>
      session.operations.discard(caller, attemptId),
  }),
]
