import { createRoute, z } from '@hono/zod-openapi'
import { Text } from '../contract/ids.ts'
import {
  Attempt,
  DiscardReport,
  IsolationPlan,
  MergeReport,
  Operation,
  OperationRecord,
  RetryEvaluation,
  RetryPolicy,
} from '../contract/operation.ts'
import { type Doors, sessionOf } from './auth.ts'
import type { AppDeps } from './deps.ts'
import type { App } from './env.ts'
import { IdempotencyHeader, json, jsonBody, params, refusals } from './openapi.ts'

const tags = ['operations']
const WaitQuery = z.strictObject({
  wait: z.coerce.number().min(0).max(60).default(0).describe('Seconds to wait for its result'),
})
const Execute = z.strictObject({
  operation: Operation,
  evaluateOnly: z
    .boolean()
    .default(false)
    .describe('Decide and record only: an approval of it resumes nothing'),
})
const Retry = z.strictObject({
  policy: RetryPolicy.default('never').describe('Without one, nothing is retried'),
})
const Why = z.strictObject({ reason: Text(2000, 1) })

export function addOperationRoutes(app: App, deps: AppDeps, doors: Doors): void {
  const sessionWith = (id: string) => deps.session(sessionOf(id))

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/runs/{runId}/operations',
      summary: 'Decide on an operation, record it, and block, park or execute it',
      tags,
      ...doors.key('write', { json: true }),
      request: { params: params.run, headers: IdempotencyHeader, body: jsonBody(Execute, true) },
      responses: {
        201: json(OperationRecord, 'The operation'),
        ...refusals('not_found', 'wrong_state', 'key_conflict', 'session_closed', 'too_large'),
      },
    }),
    async (c) => {
      const { runId } = c.req.valid('param')
      const { operation, evaluateOnly } = c.req.valid('json')
      const idempotencyKey = c.req.valid('header')['idempotency-key'] ?? null
      const options = { evaluateOnly, idempotencyKey }
      const session = sessionWith(runId)
      const answer = await session.executeOperation(c.get('caller'), runId, operation, options)
      return c.json(answer, 201)
    },
  )

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/sessions/{sessionId}/operations/plan',
      summary: 'How an operation would be isolated; nothing is done or recorded',
      tags,
      ...doors.key('read', { json: true }),
      request: {
        params: params.session,
        body: jsonBody(z.strictObject({ operation: Operation }), true),
      },
      responses: { 200: json(IsolationPlan, 'The plan'), ...refusals('not_found') },
    }),
    async (c) => {
      const session = deps.session(c.req.valid('param').sessionId)
      return c.json(
        await session.planOperation(c.get('caller'), c.req.valid('json').operation),
        200,
      )
    },
  )

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/operations/{operationId}',
      summary: 'Get an operation with its attempts, or wait for its result',
      tags,
      ...doors.key('read'),
      request: { params: params.operation, query: WaitQuery },
      responses: { 200: json(OperationRecord, 'The operation'), ...refusals('not_found') },
    }),
    async (c) => {
      const { operationId } = c.req.valid('param')
      const waitMs = c.req.valid('query').wait * 1000
      const session = sessionWith(operationId)
      return c.json(await session.operation(c.get('caller'), operationId, waitMs), 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/approvals/{approvalId}/resume',
      summary: 'Execute what was approved, without asking the policy again',
      tags,
      ...doors.key('write'),
      request: { params: params.approval },
      responses: {
        200: json(OperationRecord, 'The operation'),
        ...refusals('not_found', 'wrong_state', 'session_closed'),
      },
    }),
    async (c) => {
      const { approvalId } = c.req.valid('param')
      const session = sessionWith(approvalId)
      return c.json(await session.resumeApproval(c.get('caller'), approvalId), 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/operations/{operationId}/retry',
      summary: 'Whether another attempt would be allowed; reads only',
      tags,
      ...doors.key('read'),
      request: { params: params.operation, query: Retry },
      responses: { 200: json(RetryEvaluation, 'The evaluation'), ...refusals('not_found') },
    }),
    async (c) => {
      const { operationId } = c.req.valid('param')
      const { policy } = c.req.valid('query')
      const session = sessionWith(operationId)
      return c.json(await session.evaluateRetry(c.get('caller'), operationId, policy), 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/operations/{operationId}/retries',
      summary: 'Admit a retry: the next attempt is reserved, and nothing runs',
      tags,
      ...doors.key('write', { json: true }),
      request: { params: params.operation, body: jsonBody(Retry, true) },
      responses: { 201: json(Attempt, 'The attempt'), ...refusals('not_found', 'wrong_state') },
    }),
    async (c) => {
      const { operationId } = c.req.valid('param')
      const { policy } = c.req.valid('json')
      const session = sessionWith(operationId)
      return c.json(await session.admitRetry(c.get('caller'), operationId, policy), 201)
    },
  )

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/attempts/{attemptId}/execute',
      summary: 'Execute an attempt that was admitted',
      tags,
      ...doors.key('write'),
      request: { params: params.attempt },
      responses: {
        200: json(OperationRecord, 'The operation'),
        ...refusals('not_found', 'wrong_state', 'session_closed'),
      },
    }),
    async (c) => {
      const { attemptId } = c.req.valid('param')
      return c.json(await sessionWith(attemptId).executeAttempt(c.get('caller'), attemptId), 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/attempts/{attemptId}/abandon',
      summary: 'Give up a reserved attempt; nothing is executed or retried',
      tags,
      ...doors.key('write', { json: true }),
      request: { params: params.attempt, body: jsonBody(Why, true) },
      responses: { 200: json(Attempt, 'The attempt'), ...refusals('not_found', 'wrong_state') },
    }),
    async (c) => {
      const { attemptId } = c.req.valid('param')
      const { reason } = c.req.valid('json')
      const session = sessionWith(attemptId)
      return c.json(await session.abandonAttempt(c.get('caller'), attemptId, reason), 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/attempts/{attemptId}/merge',
      summary: "Bring an attempt's worktree into the workspace",
      tags,
      ...doors.key('write'),
      request: { params: params.attempt },
      responses: {
        200: json(MergeReport, 'What came of it'),
        ...refusals('not_found', 'wrong_state', 'session_closed', 'sandbox_unavailable'),
      },
    }),
    async (c) => {
      const { attemptId } = c.req.valid('param')
      return c.json(await sessionWith(attemptId).mergeAttempt(c.get('caller'), attemptId), 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/attempts/{attemptId}/discard',
      summary: "Drop an attempt's worktree branch: it cannot be merged any more",
      tags,
      ...doors.key('write'),
      request: { params: params.attempt },
      responses: {
        200: json(DiscardReport, 'What came of it'),
        ...refusals('not_found', 'wrong_state', 'session_closed', 'sandbox_unavailable'),
      },
    }),
    async (c) => {
      const { attemptId } = c.req.valid('param')
      return c.json(await sessionWith(attemptId).discardAttempt(c.get('caller'), attemptId), 200)
    },
  )
}
