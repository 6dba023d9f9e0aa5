import { createRoute, z } from '@hono/zod-openapi'
import { SessionEvent } from '../contract/events.ts'
import type { Doors } from './auth.ts'
import type { AppDeps } from './deps.ts'
import type { App } from './env.ts'
import { eventStream, followEvents } from './event-stream.ts'
import { params, refusals } from './openapi.ts'

const position = z.coerce.number().int().min(0)
const EventsQuery = z.strictObject({
  after: position.default(0).describe('The last event that the caller has'),
  limit: z.coerce.number().int().min(1).max(500).default(100),
})
const EventsHeaders = z.object({
  accept: z.string().optional(),
  'last-event-id': position.optional().describe('Wins over `after`: a browser sends it by itself'),
})
const EventPage = z.object({
  items: z.array(SessionEvent),
  nextAfter: z.number().int().describe('Pass it as `after` to go on'),
})

export function addEventRoutes(app: App, deps: AppDeps, doors: Doors): void {
  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/sessions/{sessionId}/events',
      summary: 'The events of a session, in pages or as a live stream',
      description:
        'With "accept: text/event-stream" the answer is a stream that goes on: each event once, in order, ' +
        'its number as the id.',
      tags: ['events'],
      ...doors.key('read'),
      request: { params: params.session, query: EventsQuery, headers: EventsHeaders },
      responses: {
        200: {
          content: {
            'application/json': { schema: EventPage },
            'text/event-stream': { schema: z.string() },
          },
          description: 'One page, or the stream',
        },
        ...refusals('not_found'),
      },
    }),
    async (c) => {
      const { sessionId } = c.req.valid('param')
      const { accept = '', 'last-event-id': lastEventId } = c.req.valid('header')
      const query = c.req.valid('query')
      const after = lastEventId ?? query.after
      const caller = c.get('caller')
      const session = deps.session(sessionId)
      // Also for a stream: whoever may not see the session gets a refusal, not an empty stream.
      const items = await session.events(caller, after, query.limit)
      if (!accept.includes('text/event-stream')) {
        return c.json({ items, nextAfter: items.at(-1)?.seq ?? after }, 200)
      }
      const feed = await deps.watch(sessionId, caller)
      const events = followEvents({
        after,
        first: items,
        feed: feed.getReader(),
        page: (last) => session.events(caller, last, 500),
      })
      return c.body(eventStream(events, c.get('stillAllowed'), deps.log), 200, {
        'content-type': 'text/event-stream; charset=utf-8',
        'x-accel-buffering': 'no',
      })
    },
  )
}
