import { z } from '@hono/zod-openapi'
import { EvalReportQuery } from '../../contract/eval-report.ts'
import * as schemas from '../../contract/eval-run.ts'
import {
  EvalAttempt,
  EvalEvent,
  EvalRun,
  EvalRunCreate,
  EvalRunListQuery,
  EvalRunRow,
} from '../../contract/eval-run.ts'
import { maxEvalFileBytes } from '../../contract/eval-suite.ts'
import { EvalRunId } from '../../contract/ids.ts'
import { PageQuery } from '../../contract/page.ts'
import { Reason } from '../../contract/session.ts'
import { listEvalRuns } from '../../core/registry/evals/eval-runs.ts'
import { createEvalRun } from '../../core/verbs/create-eval-run.ts'
import { reportEvalRun } from '../../core/verbs/report-eval-run.ts'
import { allowLargerBody } from '../kit/body.ts'
import { evalRunOf, evalRunsOf } from '../kit/evals/eval-run-of.ts'
import { eventStream } from '../kit/event-stream.ts'
import { listSchema, namedSchema, nameSchemas } from '../kit/openapi-schemas.ts'
import { datedPage, numberedPage } from '../kit/paging.ts'
import { accepted, created, gone, ok, rawRoute, route } from '../kit/route.ts'

nameSchemas(schemas)
// A folder: several files of the largest size.
allowLargerBody(EvalRunCreate, 8 * maxEvalFileBytes)

const tag = 'evals'
const limitedKeys = 'obeyed'
const RunParam = z.object({ evalRunId: EvalRunId })
const text = { schema: { type: 'string' } } as const
const position = z.coerce.number().int().min(0)
const EventsQuery = z.strictObject({
  after: position.default(0).describe('The last event that the caller has'),
  limit: z.coerce.number().int().min(1).max(500).default(100),
  waitSeconds: z.coerce.number().int().min(0).max(25).default(0).describe('If there is none yet'),
})
const EvalEventPage = namedSchema(
  'EvalEventPage',
  z.object({
    items: z.array(EvalEvent),
    nextAfter: z.number().int().describe('Pass it as `after` to go on'),
  }),
)
const EventsHeaders = z.object({
  accept: z.string().optional(),
  'last-event-id': position.optional().describe('Wins over `after`: a browser sends it by itself'),
})
/** A stream asks again after so long, so that it outlives no instance of the run. */
const followMs = 20_000

export const evalRunRoutes = [
  route({
    id: 'createEvalRun',
    method: 'post',
    path: '/v1/evals/runs',
    summary: 'Run a suite: every case, as often as it is repeated, against every target',
    description:
      'The answer comes as soon as the run is stored. A case with mistakes is left out and named in `problems`.',
    tag,
    guard: 'write',
    limitedKeys,
    body: EvalRunCreate,
    idempotent: true,
    answers: created(EvalRun, 'The run, which has begun'),
    refuses: ['unprocessable', 'forbidden', 'key_conflict', 'not_configured'],
    location: ({ id }) => `/v1/evals/runs/${id}`,
    answer: ({ deps, caller, body, idempotencyKey }) =>
      createEvalRun({ ...deps, evalRun: evalRunsOf(deps) }, caller, body, idempotencyKey),
  }),

  route({
    id: 'listEvalRuns',
    method: 'get',
    path: '/v1/evals/runs',
    summary: 'List eval runs, newest first',
    tag,
    guard: 'read',
    limitedKeys,
    query: EvalRunListQuery,
    answers: ok(listSchema(EvalRunRow), 'One page'),
    refuses: ['invalid_request', 'not_configured'],
    answer({ deps, caller, query }) {
      evalRunsOf(deps)
      const { project = null, dataset = null } = query
      return datedPage(query, (before, limit) =>
        listEvalRuns(deps.db(), caller, { project, dataset, before, limit }),
      )
    },
  }),

  route({
    id: 'getEvalRun',
    method: 'get',
    path: '/v1/evals/runs/{evalRunId}',
    summary: 'Get an eval run, with how far it is',
    tag,
    guard: 'read',
    limitedKeys,
    params: RunParam,
    answers: ok(EvalRun, 'The run'),
    refuses: ['not_found', 'not_configured'],
    answer: async ({ deps, caller, params }) =>
      (await evalRunOf(deps, params.evalRunId)).runs.view(caller),
  }),

  route({
    id: 'listEvalAttempts',
    method: 'get',
    path: '/v1/evals/runs/{evalRunId}/attempts',
    summary: 'List the attempts of an eval run in their order, with what came of them',
    tag,
    guard: 'read',
    limitedKeys,
    params: RunParam,
    query: PageQuery,
    answers: ok(listSchema(EvalAttempt), 'One page'),
    refuses: ['not_found', 'invalid_request', 'not_configured'],
    answer: async ({ deps, caller, params, query }) => {
      const { runs } = await evalRunOf(deps, params.evalRunId)
      return numberedPage(query, (page) => runs.attempts(caller, page))
    },
  }),

  rawRoute({
    id: 'getEvalReport',
    method: 'get',
    path: '/v1/evals/runs/{evalRunId}/report',
    summary: 'What came of an eval run as one file, compared with a baseline if one is named',
    tag,
    guard: 'read',
    limitedKeys,
    params: RunParam,
    query: EvalReportQuery,
    responses: {
      200: {
        content: { 'text/html': text, 'application/xml': text, 'text/markdown': text },
        description: 'The file, in the form that was asked for; format=jsonl is application/jsonl',
      },
    },
    refuses: ['not_found', 'unprocessable', 'not_configured'],
    async respond({ deps, caller, params, query }, c) {
      const run = await evalRunOf(deps, params.evalRunId)
      const baseline = query.baseline === undefined ? null : await evalRunOf(deps, query.baseline)
      const report = await reportEvalRun(caller, run, baseline, query)
      return c.body(report.text, 200, {
        'content-type': report.contentType,
        'content-disposition': `attachment; filename="${report.fileName}"`,
        'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'",
      })
    },
  }),

  rawRoute({
    id: 'listEvalEvents',
    method: 'get',
    path: '/v1/evals/runs/{evalRunId}/events',
    summary: 'What happens in an eval run, in pages or as a live stream',
    description:
      'With "accept: text/event-stream" the answer is a stream that goes on until the run has ended: each event once, ' +
      'in order, its number as the id. The log of an attempt is published before it begins to work.',
    tag,
    guard: 'read',
    limitedKeys,
    params: RunParam,
    query: EventsQuery,
    headers: EventsHeaders,
    responses: {
      200: {
        content: {
          'application/json': { schema: EvalEventPage },
          'text/event-stream': { schema: z.string().describe('Each `data:` line is an EvalEvent') },
        },
        description: 'One page, or the stream',
      },
    },
    refuses: ['not_found', 'not_configured'],
    async respond({ deps, caller, params, query, headers, log }, c) {
      const { runs } = await evalRunOf(deps, params.evalRunId)
      const { accept = '', 'last-event-id': lastEventId } = headers
      const after = lastEventId ?? query.after
      const isStream = accept.includes('text/event-stream')
      const waitMs = isStream ? 0 : query.waitSeconds * 1000
      // Also for a stream: whoever may not see the run gets a refusal, not an empty stream.
      const items = await runs.events(caller, after, query.limit, waitMs)
      if (!isStream) return c.json({ items, nextAfter: items.at(-1)?.seq ?? after }, 200)
      const events = follow(items, after, (last) => runs.events(caller, last, 500, followMs))
      return c.body(eventStream(events, c.get('stillAllowed'), log), 200, {
        'content-type': 'text/event-stream; charset=utf-8',
        'x-accel-buffering': 'no',
      })
    },
  }),

  route({
    id: 'cancelEvalRun',
    method: 'post',
    path: '/v1/evals/runs/{evalRunId}/cancel',
    summary: 'Cancel an eval run: attempts without a result end with an error that says so',
    tag,
    guard: 'write',
    limitedKeys,
    params: RunParam,
    body: Reason,
    bodyMayBeMissing: true,
    answers: accepted(EvalRun, 'The run, as it is now'),
    refuses: ['not_found', 'forbidden', 'not_configured'],
    answer: async ({ deps, caller, params, body }) =>
      (await evalRunOf(deps, params.evalRunId)).runs.cancel(caller, body.reason),
  }),

  route({
    id: 'deleteEvalRun',
    method: 'delete',
    path: '/v1/evals/runs/{evalRunId}',
    summary: 'Delete an eval run with its results and the sessions of its attempts',
    tag,
    guard: 'write',
    limitedKeys,
    params: RunParam,
    answers: gone('It is gone'),
    refuses: ['not_found', 'forbidden', 'not_configured'],
    answer: async ({ deps, caller, params }) =>
      (await evalRunOf(deps, params.evalRunId)).erasing.erase(caller),
  }),
]

/** Each event once and in order, until the last one of the run has come. */
function follow(first: EvalEvent[], after: number, page: (after: number) => Promise<EvalEvent[]>) {
  async function* run(): AsyncGenerator<EvalEvent, void> {
    let last = after
    for (let events = first; ; events = await page(last)) {
      for (const event of events) {
        last = event.seq
        yield event
        if (event.kind === 'run.ended') return
      }
    }
  }
  const events = run()
  return {
    next: async () => (await events.next()).value ?? null,
    cancel: async () => void (await events.return()),
  }
}
