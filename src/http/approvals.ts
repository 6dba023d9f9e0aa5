import { createRoute, z } from '@hono/zod-openapi'
import { Approval, ApprovalResolve, ApprovalRevoke, ApprovalState } from '../contract/approval.ts'
import { ApprovalId, RunId, SessionId } from '../contract/ids.ts'
import { page, PageQuery } from '../contract/page.ts'
import { listInbox } from '../core/runs/inbox.ts'
import { type Doors, sessionOf } from './auth.ts'
import type { AppDeps } from './deps.ts'
import type { App } from './env.ts'
import { cursorPair, json, jsonBody, pageOf, params, refusals } from './openapi.ts'

const tags = ['approvals']
const InboxEntry = z.object({
  id: ApprovalId,
  sessionId: SessionId,
  runId: RunId,
  kind: z.string(),
  state: ApprovalState,
  title: z.string(),
  reason: z.string(),
  createdAt: z.number(),
  deadlineAt: z.number(),
  resolvedAt: z.number().nullable(),
  actor: z.string().nullable(),
})

export function addApprovalRoutes(app: App, deps: AppDeps, doors: Doors): void {
  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/approvals',
      summary: "The organisation's inbox: what waits for a person, newest first",
      tags,
      ...doors.key('read'),
      request: { query: PageQuery.extend({ state: ApprovalState.default('pending') }) },
      responses: {
        200: json(page(InboxEntry), 'One page, as far as the ledger has it'),
        ...refusals('storage_unavailable'),
      },
    }),
    async (c) => {
      const { limit, cursor, state } = c.req.valid('query')
      const { organisationId } = c.get('caller')
      const rows = await listInbox(deps.db(), organisationId, {
        state,
        limit: limit + 1,
        after: cursorPair(cursor),
      })
      return c.json(pageOf(rows, limit), 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/sessions/{sessionId}/approvals',
      summary: 'The approvals of a session, newest first',
      tags,
      ...doors.key('read'),
      request: { params: params.session },
      responses: { 200: json(page(Approval), 'The newest 200'), ...refusals('not_found') },
    }),
    async (c) => {
      const session = deps.session(c.req.valid('param').sessionId)
      return c.json(
        { items: await session.approvals(c.get('caller'), null), nextCursor: null },
        200,
      )
    },
  )

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/runs/{runId}/approvals',
      summary: 'The approvals of a run, newest first',
      tags,
      ...doors.key('read'),
      request: { params: params.run },
      responses: { 200: json(page(Approval), 'The newest 200'), ...refusals('not_found') },
    }),
    async (c) => {
      const { runId } = c.req.valid('param')
      const session = deps.session(sessionOf(runId))
      return c.json(
        { items: await session.approvals(c.get('caller'), runId), nextCursor: null },
        200,
      )
    },
  )

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/approvals/{approvalId}',
      summary: 'Get an approval',
      tags,
      ...doors.key('read'),
      request: { params: params.approval },
      responses: { 200: json(Approval, 'The approval'), ...refusals('not_found') },
    }),
    async (c) => {
      const { approvalId } = c.req.valid('param')
      const session = deps.session(sessionOf(approvalId))
      return c.json(await session.approval(c.get('caller'), approvalId), 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/approvals/{approvalId}/resolve',
      summary: 'Approve, reject or cancel; once. Below its quorum an approval stays pending',
      tags,
      ...doors.key('approve', { json: true }),
      request: { params: params.approval, body: jsonBody(ApprovalResolve, true) },
      responses: {
        200: json(Approval, 'The approval'),
        ...refusals('not_found', 'wrong_state', 'forbidden'),
      },
    }),
    async (c) => {
      const { approvalId } = c.req.valid('param')
      const session = deps.session(sessionOf(approvalId))
      const vote = c.req.valid('json')
      return c.json(await session.resolveApproval(c.get('caller'), approvalId, vote), 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/approvals/{approvalId}/revoke',
      summary: 'End what was remembered: the operation is asked about again',
      tags,
      ...doors.key('approve', { json: true }),
      request: { params: params.approval, body: jsonBody(ApprovalRevoke, true) },
      responses: { 200: json(Approval, 'The approval'), ...refusals('not_found', 'wrong_state') },
    }),
    async (c) => {
      const { approvalId } = c.req.valid('param')
      const session = deps.session(sessionOf(approvalId))
      const revoke = c.req.valid('json')
      return c.json(await session.revokeApproval(c.get('caller'), approvalId, revoke), 200)
    },
  )
}
