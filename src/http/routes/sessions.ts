import { z } from '@hono/zod-openapi'
import { PageQuery } from '../../contract/page.ts'
import * as schemas from '../../contract/session.ts'
import {
  Reason,
  Session,
  SessionCreate,
  SessionRow,
  SessionStatus,
} from '../../contract/session.ts'
import { ToolCall } from '../../contract/tool.ts'
import { listSessions } from '../../core/registry/sessions.ts'
import { createSession } from '../../core/verbs/create-session.ts'
import { deleteSession } from '../../core/verbs/delete-session.ts'
import { params } from '../kit/openapi.ts'
import { datedPage, numberedPage } from '../kit/paging.ts'
import { created, gone, ok, route } from '../kit/route.ts'
import { listSchema, nameSchemas } from '../kit/openapi-schemas.ts'

nameSchemas(schemas)

const tag = 'sessions'
const ListQuery = PageQuery.extend({
  project: z.string().max(64).optional(),
  status: SessionStatus.optional().describe('Default: all but the warm ones'),
})

export const sessionRoutes = [
  route({
    id: 'createSession',
    method: 'post',
    path: '/v1/sessions',
    summary: 'Create a session',
    tag,
    guard: 'write',
    limitedKeys: 'obeyed',
    body: SessionCreate,
    idempotent: true,
    answers: created(Session, 'The session'),
    location: ({ id }) => `/v1/sessions/${id}`,
    refuses: ['key_conflict', 'wrong_state', 'not_found', 'too_large', 'unprocessable'],
    answer: ({ deps, caller, body, idempotencyKey }) =>
      createSession(deps, caller, body, idempotencyKey),
  }),

  route({
    id: 'listSessions',
    method: 'get',
    path: '/v1/sessions',
    summary: 'List sessions, newest first',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    query: ListQuery,
    answers: ok(listSchema(SessionRow), 'One page'),
    refuses: ['invalid_request'],
    answer: ({ deps, caller, query }) =>
      datedPage(query, (before, limit) =>
        listSessions(deps.db(), caller, {
          project: query.project ?? null,
          status: query.status ?? null,
          ...{ before, limit },
        }),
      ),
  }),

  route({
    id: 'getSession',
    method: 'get',
    path: '/v1/sessions/{sessionId}',
    summary: 'Get a session',
    tag,
    guard: 'read',
    params: params.session,
    answers: ok(Session, 'The session'),
    refuses: ['not_found'],
    answer: ({ session, caller }) => session.self.view(caller),
  }),

  route({
    id: 'closeSession',
    method: 'post',
    path: '/v1/sessions/{sessionId}/close',
    summary: 'Close a session: its sandbox stops, its record stays',
    tag,
    guard: 'write',
    params: params.session,
    body: Reason,
    bodyMayBeMissing: true,
    answers: ok(Session, 'The session'),
    refuses: ['not_found'],
    answer: ({ session, caller, body }) =>
      session.self.close(caller, body.reason || 'Closed by its caller'),
  }),

  route({
    id: 'deleteSession',
    method: 'delete',
    path: '/v1/sessions/{sessionId}',
    summary: 'Erase a session with everything that it has stored',
    tag,
    guard: 'write',
    params: params.session,
    answers: gone('It is gone'),
    refuses: ['not_found'],
    answer: ({ deps, caller, params }) => deleteSession(deps, caller, params.sessionId),
  }),

  route({
    id: 'replaceSandbox',
    method: 'post',
    path: '/v1/sessions/{sessionId}/replace',
    summary: 'Replace the sandbox by a new one; the old one is refused from now on',
    tag,
    guard: 'write',
    params: params.session,
    body: Reason,
    bodyMayBeMissing: true,
    idempotent: true,
    answers: ok(Session, 'The session'),
    refuses: ['not_found', 'wrong_state', 'session_closed', 'key_conflict'],
    answer: ({ session, caller, body, idempotencyKey }) =>
      session.sandbox.replace(caller, body.reason || 'Replaced by its caller', idempotencyKey),
  }),

  route({
    id: 'retrySandbox',
    method: 'post',
    path: '/v1/sessions/{sessionId}/retry',
    summary: 'Start a sandbox again that has failed, was lost or sleeps',
    tag,
    guard: 'write',
    params: params.session,
    body: Reason,
    bodyMayBeMissing: true,
    answers: ok(Session, 'The session'),
    refuses: ['not_found', 'wrong_state'],
    answer: ({ session, caller, body }) =>
      session.sandbox.retry(caller, body.reason || 'Started again'),
  }),

  route({
    id: 'listCalls',
    method: 'get',
    path: '/v1/sessions/{sessionId}/calls',
    summary: 'List the tool calls of a session, oldest first',
    tag: 'calls',
    guard: 'read',
    params: params.session,
    query: PageQuery,
    answers: ok(listSchema(ToolCall), 'One page'),
    refuses: ['not_found'],
    answer: ({ session, caller, query }) =>
      numberedPage(query, (page) => session.calls.list(caller, page)),
  }),
]
