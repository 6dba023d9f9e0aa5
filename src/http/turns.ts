import { createRoute, z } from '@hono/zod-openapi'
import { page, PageQuery } from '../contract/page.ts'
import { Session } from '../contract/session.ts'
import { PromptCreate, Turn } from '../contract/turn.ts'
import { type Doors, sessionOf } from './auth.ts'
import type { AppDeps } from './deps.ts'
import type { App } from './env.ts'
import { cursorNumber, IdempotencyHeader, json, jsonBody, params, refusals } from './openapi.ts'

const tags = ['turns']
const WaitQuery = z.strictObject({
  wait: z.coerce
    .number()
    .min(0)
    .max(60)
    .default(0)
    .describe('Seconds to wait for the end of the turn'),
})

export function addTurnRoutes(app: App, deps: AppDeps, doors: Doors): void {
  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/sessions/{sessionId}/prompts',
      summary: 'Send a prompt: it starts a turn, or waits for its place',
      tags,
      ...doors.key('write', { json: true }),
      request: {
        params: params.session,
        headers: IdempotencyHeader,
        body: jsonBody(PromptCreate, true),
      },
      responses: {
        202: json(Turn, 'The turn'),
        ...refusals('not_found', 'queue_full', 'key_conflict', 'session_closed', 'too_large'),
      },
    }),
    async (c) => {
      const key = c.req.valid('header')['idempotency-key'] ?? null
      const session = deps.session(c.req.valid('param').sessionId)
      return c.json(await session.prompt(c.get('caller'), c.req.valid('json'), key), 202)
    },
  )

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/sessions/{sessionId}/turns',
      summary: 'List the turns of a session, oldest first',
      tags,
      ...doors.key('read'),
      request: { params: params.session, query: PageQuery },
      responses: { 200: json(page(Turn), 'One page'), ...refusals('not_found') },
    }),
    async (c) => {
      const { limit, cursor } = c.req.valid('query')
      const session = deps.session(c.req.valid('param').sessionId)
      const { items, next } = await session.turns(c.get('caller'), {
        limit,
        after: cursorNumber(cursor),
      })
      return c.json({ items, nextCursor: next === null ? null : String(next) }, 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/sessions/{sessionId}/abort',
      summary: 'Abort the running turn and drop the queued ones',
      tags,
      ...doors.key('write'),
      request: { params: params.session },
      responses: { 200: json(Session, 'The session'), ...refusals('not_found') },
    }),
    async (c) => {
      const session = deps.session(c.req.valid('param').sessionId)
      return c.json(await session.abort(c.get('caller')), 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/turns/{turnId}',
      summary: 'Get a turn, or wait for its end',
      tags,
      ...doors.key('read'),
      request: { params: params.turn, query: WaitQuery },
      responses: { 200: json(Turn, 'The turn'), ...refusals('not_found') },
    }),
    async (c) => {
      const { turnId } = c.req.valid('param')
      const { wait } = c.req.valid('query')
      const session = deps.session(sessionOf(turnId))
      const turn =
        wait > 0
          ? await session.waitForTurn(c.get('caller'), turnId, wait * 1000)
          : await session.turn(c.get('caller'), turnId)
      return c.json(turn, 200)
    },
  )
}
