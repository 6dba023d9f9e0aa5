import { createRoute } from '@hono/zod-openapi'
import { page, PageQuery } from '../contract/page.ts'
import { ToolCall } from '../contract/tool.ts'
import type { Doors } from './auth.ts'
import type { AppDeps } from './deps.ts'
import type { App } from './env.ts'
import { cursorNumber, json, params, refusals } from './openapi.ts'

export function addCallRoutes(app: App, deps: AppDeps, doors: Doors): void {
  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/sessions/{sessionId}/calls',
      summary: 'List the tool calls of a session, oldest first',
      tags: ['calls'],
      ...doors.key('read'),
      request: { params: params.session, query: PageQuery },
      responses: { 200: json(page(ToolCall), 'One page'), ...refusals('not_found') },
    }),
    async (c) => {
      const { limit, cursor } = c.req.valid('query')
      const session = deps.session(c.req.valid('param').sessionId)
      const { items, next } = await session.calls(c.get('caller'), {
        limit,
        after: cursorNumber(cursor),
      })
      return c.json({ items, nextCursor: next === null ? null : String(next) }, 200)
    },
  )
}
