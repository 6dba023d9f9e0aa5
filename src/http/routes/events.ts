import { z } from '@hono/zod-openapi'
import { params } from '../kit/openapi.ts'
import { eventStream, followEvents } from '../kit/event-stream.ts'
import { rawRoute } from '../kit/route.ts'
import { namedSchema, SessionEvent } from '../kit/openapi-schemas.ts'

const position = z.coerce.number().int().min(0)
const EventsQuery = z.strictObject({
  after: position.default(0).describe('The last event that the caller has'),
  limit: z.coerce.number().int().min(1).max(500).default(100),
})
const EventsHeaders = z.object({
  accept: z.string().optional(),
  'last-event-id': position.optional().describe('Wins over `after`: a browser sends it by itself'),
})
const EventPage = namedSchema(
  'SessionEventPage',
  z.object({
    items: z.array(SessionEvent),
    nextAfter: z.number().int().describe('Pass it as `after` to go on'),
  }),
)

export const eventRoutes = [
  rawRoute({
    id: 'listEvents',
    method: 'get',
    path: '/v1/sessions/{sessionId}/events',
    summary: 'The events of a session, in pages or as a live stream',
    description:
      'With "accept: text/event-stream" the answer is a stream that goes on: each event once, in order, ' +
      'its number as the id.',
    tag: 'events',
    guard: 'read',
    params: params.session,
    query: EventsQuery,
    headers: EventsHeaders,
    responses: {
      200: {
        content: {
          'application/json': { schema: EventPage },
          'text/event-stream': {
            schema: z.string().describe('Each `data:` line is a SessionEvent in JSON'),
          },
        },
        description: 'One page, or the stream',
      },
    },
    refuses: ['not_found'],
    async respond({ deps, session, caller, params, query, headers, log }, c) {
      const { accept = '', 'last-event-id': lastEventId } = headers
      const after = lastEventId ?? query.after
      // Also for a stream: whoever may not see the session gets a refusal, not an empty stream.
      const items = await session.log.events(caller, after, query.limit)
      if (!accept.includes('text/event-stream')) {
        return c.json({ items, nextAfter: items.at(-1)?.seq ?? after }, 200)
      }
      const feed = await deps.watch(params.sessionId, caller)
      const events = followEvents({
        after,
        first: items,
        feed: feed.getReader(),
        page: (last) => session.log.events(caller, last, 500),
      })
      return c.body(eventStream(events, c.get('stillAllowed'), log), 200, {
        'content-type': 'text/event-stream; charset=utf-8',
        'x-accel-buffering': 'no',
      })
    },
  }),
]
