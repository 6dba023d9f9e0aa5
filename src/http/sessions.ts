import { createRoute, z } from '@hono/zod-openapi'
import type { SessionId } from '../contract/ids.ts'
import { page, PageQuery } from '../contract/page.ts'
import {
  Reason,
  Session,
  SessionCreate,
  SessionDiff,
  SessionRow,
  SessionStatus,
} from '../contract/session.ts'
import { listSessions } from '../core/sessions/list.ts'
import type { Doors } from './auth.ts'
import type { AppDeps } from './deps.ts'
import type { App } from './env.ts'
import { createSession } from './create-session.ts'
import {
  cursorPair,
  IdempotencyHeader,
  json,
  jsonBody,
  pageOf,
  params,
  refusals,
} from './openapi.ts'

const tags = ['sessions']
const ListQuery = PageQuery.extend({
  project: z.string().max(64).optional(),
  status: SessionStatus.optional().describe('Default: all but the warm ones'),
})

export function addSessionRoutes(app: App, deps: AppDeps, doors: Doors): void {
  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/sessions',
      summary: 'Create a session',
      tags,
      ...doors.key('write', { json: true }),
      request: { headers: IdempotencyHeader, body: jsonBody(SessionCreate, true) },
      responses: {
        201: json(Session, 'The session'),
        ...refusals('key_conflict', 'wrong_state', 'not_found', 'too_large', 'unprocessable'),
      },
    }),
    async (c) => {
      const key = c.req.valid('header')['idempotency-key'] ?? null
      const session = await createSession(deps, c.get('caller'), c.req.valid('json'), key)
      c.header('location', `/v1/sessions/${session.id}`)
      return c.json(session, 201)
    },
  )

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/sessions',
      summary: 'List sessions, newest first',
      tags,
      ...doors.key('read'),
      request: { query: ListQuery },
      responses: { 200: json(page(SessionRow), 'One page'), ...refusals('invalid_request') },
    }),
    async (c) => {
      const { limit, cursor, project, status } = c.req.valid('query')
      const rows = await listSessions(deps.db(), c.get('caller').organisationId, {
        project: project ?? null,
        status: status ?? null,
        before: cursorPair(cursor),
        limit: limit + 1,
      })
      return c.json(pageOf(rows, limit), 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/sessions/{sessionId}',
      summary: 'Get a session',
      tags,
      ...doors.key('read'),
      request: { params: params.session },
      responses: { 200: json(Session, 'The session'), ...refusals('not_found') },
    }),
    async (c) => c.json(await sessionOf(c.req.valid('param')).view(c.get('caller')), 200),
  )

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/sessions/{sessionId}/close',
      summary: 'Close a session: its sandbox stops, its record stays',
      tags,
      ...doors.key('write', { json: true }),
      request: { params: params.session, body: jsonBody(Reason, false) },
      responses: { 200: json(Session, 'The session'), ...refusals('not_found') },
    }),
    async (c) => {
      const { reason } = Reason.parse(c.req.valid('json'))
      const session = sessionOf(c.req.valid('param'))
      return c.json(await session.close(c.get('caller'), reason || 'Closed by its caller'), 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'delete',
      path: '/v1/sessions/{sessionId}',
      summary: 'Erase a session with everything that it has stored',
      tags,
      ...doors.key('write'),
      request: { params: params.session },
      responses: { 204: { description: 'It is gone' }, ...refusals('not_found') },
    }),
    async (c) => {
      const { sessionId } = c.req.valid('param')
      const caller = c.get('caller')
      await deps.organisation(caller.organisationId).endCreation(sessionId)
      await deps.session(sessionId).erase(caller)
      return c.body(null, 204)
    },
  )

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/sessions/{sessionId}/replace',
      summary: 'Replace the sandbox by a new one; the old one is refused from now on',
      tags,
      ...doors.key('write', { json: true }),
      request: { params: params.session, body: jsonBody(Reason, false) },
      responses: {
        200: json(Session, 'The session'),
        ...refusals('not_found', 'wrong_state', 'session_closed'),
      },
    }),
    async (c) => {
      const { reason } = Reason.parse(c.req.valid('json'))
      const session = sessionOf(c.req.valid('param'))
      return c.json(
        await session.replaceSandbox(c.get('caller'), reason || 'Replaced by its caller'),
        200,
      )
    },
  )

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/sessions/{sessionId}/retry',
      summary: 'Start a sandbox again that has failed, was lost or sleeps',
      tags,
      ...doors.key('write', { json: true }),
      request: { params: params.session, body: jsonBody(Reason, false) },
      responses: { 200: json(Session, 'The session'), ...refusals('not_found', 'wrong_state') },
    }),
    async (c) => {
      const { reason } = Reason.parse(c.req.valid('json'))
      const session = sessionOf(c.req.valid('param'))
      const answer = await session.retrySandbox(c.get('caller'), reason || 'Started again')
      return c.json(answer, 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/sessions/{sessionId}/diff',
      summary: 'What the agent has changed in its workspace',
      tags,
      ...doors.key('read'),
      request: { params: params.session },
      responses: { 200: json(SessionDiff, 'The diff'), ...refusals('not_found') },
    }),
    async (c) => c.json(await sessionOf(c.req.valid('param')).diff(c.get('caller')), 200),
  )

  function sessionOf({ sessionId }: { sessionId: SessionId }) {
    return deps.session(sessionId)
  }
}
