import { createRoute } from '@hono/zod-openapi'
import { Ask, AskAnswer } from '../contract/ask.ts'
import { page } from '../contract/page.ts'
import type { Doors } from './auth.ts'
import type { AppDeps } from './deps.ts'
import type { App } from './env.ts'
import { json, jsonBody, params, refusals } from './openapi.ts'

const tags = ['asks']

export function addAskRoutes(app: App, deps: AppDeps, doors: Doors): void {
  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/sessions/{sessionId}/asks',
      summary: 'List the questions that the gate has parked',
      tags,
      ...doors.key('read'),
      request: { params: params.session },
      responses: { 200: json(page(Ask), 'All of them'), ...refusals('not_found') },
    }),
    async (c) => {
      const session = deps.session(c.req.valid('param').sessionId)
      return c.json({ items: await session.asks(c.get('caller')), nextCursor: null }, 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/sessions/{sessionId}/asks/{askId}',
      summary: 'Answer a parked question',
      tags,
      ...doors.key('approve', { json: true }),
      request: { params: params.ask, body: jsonBody(AskAnswer, true) },
      responses: {
        200: json(Ask, 'The answered question'),
        ...refusals('not_found', 'wrong_state'),
      },
    }),
    async (c) => {
      const { sessionId, askId } = c.req.valid('param')
      const answer = c.req.valid('json')
      return c.json(await deps.session(sessionId).answerAsk(c.get('caller'), askId, answer), 200)
    },
  )
}
