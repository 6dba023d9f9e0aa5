import { z } from '@hono/zod-openapi'
import { PageQuery } from '../../contract/page.ts'
import { Reason, Session } from '../../contract/session.ts'
import * as schemas from '../../contract/turn.ts'
import { PromptCreate, Turn } from '../../contract/turn.ts'
import { params } from '../kit/openapi.ts'
import { numberedPage } from '../kit/paging.ts'
import { accepted, ok, route } from '../kit/route.ts'
import { listSchema, nameSchemas } from '../kit/openapi-schemas.ts'

nameSchemas(schemas)

const tag = 'turns'
const WaitQuery = z.strictObject({
  wait: z.coerce
    .number()
    .min(0)
    .max(60)
    .default(0)
    .describe('Seconds to wait for the end of the turn'),
})

export const turnRoutes = [
  route({
    id: 'sendPrompt',
    method: 'post',
    path: '/v1/sessions/{sessionId}/prompts',
    summary: 'Send a prompt: it starts a turn, or waits for its place',
    tag,
    guard: 'write',
    params: params.session,
    body: PromptCreate,
    idempotent: true,
    answers: accepted(Turn, 'The turn'),
    refuses: ['not_found', 'queue_full', 'key_conflict', 'session_closed', 'too_large'],
    answer: ({ session, caller, body, idempotencyKey }) =>
      session.turns.prompt(caller, body, idempotencyKey),
  }),

  route({
    id: 'listTurns',
    method: 'get',
    path: '/v1/sessions/{sessionId}/turns',
    summary: 'List the turns of a session, oldest first',
    tag,
    guard: 'read',
    params: params.session,
    query: PageQuery,
    answers: ok(listSchema(Turn), 'One page'),
    refuses: ['not_found'],
    answer: ({ session, caller, query }) =>
      numberedPage(query, (page) => session.turns.list(caller, page)),
  }),

  route({
    id: 'abortTurns',
    method: 'post',
    path: '/v1/sessions/{sessionId}/abort',
    summary: 'Abort the running turn and drop the queued ones',
    tag,
    guard: 'write',
    params: params.session,
    body: Reason,
    bodyMayBeMissing: true,
    answers: ok(Session, 'The session'),
    refuses: ['not_found'],
    answer: ({ session, caller, body }) => session.self.abort(caller, body.reason),
  }),

  route({
    id: 'getTurn',
    method: 'get',
    path: '/v1/turns/{turnId}',
    summary: 'Get a turn, or wait for its end',
    tag,
    guard: 'read',
    params: params.turn,
    query: WaitQuery,
    answers: ok(Turn, 'The turn'),
    refuses: ['not_found'],
    answer: ({ session, caller, params: { turnId }, query: { wait } }) =>
      wait > 0
        ? session.turns.wait(caller, turnId, wait * 1000)
        : session.turns.get(caller, turnId),
  }),
]
