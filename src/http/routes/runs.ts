import { z } from '@hono/zod-openapi'
import { Approval } from '../../contract/approval.ts'
import { SessionId, Text } from '../../contract/ids.ts'
import { Attempt } from '../../contract/operation.ts'
import { PageQuery } from '../../contract/page.ts'
import * as schemas from '../../contract/run.ts'
import {
  Checkpoint,
  CheckpointCreate,
  EvidenceSummary,
  LoneRunCreate,
  Run,
  RunChange,
  RunCreate,
  RunEvent,
  RunEventAdd,
  RunFinish,
  RunResume,
  RunStatus,
  RunSummary,
  TimelineCheck,
} from '../../contract/run.ts'
import { listAllRuns } from '../../core/registry/runs.ts'
import { createLoneRun } from '../../core/verbs/create-lone-run.ts'
import { params } from '../kit/openapi.ts'
import { datedPage, numberedPage } from '../kit/paging.ts'
import { created, ok, route } from '../kit/route.ts'
import { listSchema, nameSchemas, namedSchema } from '../kit/openapi-schemas.ts'

nameSchemas(schemas)

const tag = 'runs'
const RunsQuery = PageQuery.extend({
  status: RunStatus.optional(),
  project: LoneRunCreate.shape.project.unwrap().optional(),
  session: SessionId.optional(),
  agent: Text(100, 1).optional(),
  since: z.coerce
    .number()
    .int()
    .min(0)
    .optional()
    .describe('Created at this time or later, in milliseconds since 1970'),
})
const RunRecord = namedSchema(
  'RunRecord',
  z.object({
    run: Run,
    events: z.array(RunEvent).describe('The newest 200, in order'),
    checkpoints: z.array(Checkpoint),
    approvals: z.array(Approval),
    attempts: z.array(Attempt),
    operationAttempts: z.array(Attempt).describe('Another name of `attempts`'),
    evidence: EvidenceSummary,
  }),
)
const RunResumed = namedSchema('RunResumed', z.object({ run: Run, checkpoint: Checkpoint }))

export const runRoutes = [
  route({
    id: 'createRun',
    method: 'post',
    path: '/v1/sessions/{sessionId}/runs',
    summary: 'Create a run',
    tag,
    guard: 'write',
    params: params.session,
    body: RunCreate,
    idempotent: true,
    answers: created(Run, 'The run'),
    refuses: ['not_found', 'key_conflict', 'session_closed'],
    answer: ({ session, caller, body, idempotencyKey }) =>
      session.runs.create(caller, body, idempotencyKey),
  }),

  route({
    id: 'createLoneRun',
    method: 'post',
    path: '/v1/runs',
    summary: 'Create a run without a sandbox, in a session of its own',
    tag,
    guard: 'write',
    limitedKeys: 'obeyed',
    body: LoneRunCreate,
    idempotent: true,
    answers: created(Run, 'The run'),
    refuses: ['key_conflict'],
    answer: ({ deps, caller, body, idempotencyKey }) =>
      createLoneRun(deps, caller, body, idempotencyKey),
  }),

  route({
    id: 'listSessionRuns',
    method: 'get',
    path: '/v1/sessions/{sessionId}/runs',
    summary: 'List the runs of a session, newest first',
    tag,
    guard: 'read',
    params: params.session,
    query: PageQuery,
    answers: ok(listSchema(Run), 'One page'),
    refuses: ['not_found'],
    answer: ({ session, caller, query }) =>
      numberedPage(query, (page) => session.runs.list(caller, page)),
  }),

  route({
    id: 'listRuns',
    method: 'get',
    path: '/v1/runs',
    summary: 'List the runs of all sessions, newest first',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    query: RunsQuery,
    answers: ok(listSchema(RunSummary), 'One page'),
    refuses: ['invalid_request'],
    answer: ({ deps, caller, query }) =>
      datedPage(query, (before, limit) =>
        listAllRuns(deps.db(), caller, {
          status: query.status ?? null,
          project: query.project ?? null,
          sessionId: query.session ?? null,
          agent: query.agent ?? null,
          since: query.since ?? null,
          ...{ before, limit },
        }),
      ),
  }),

  route({
    id: 'getRun',
    method: 'get',
    path: '/v1/runs/{runId}',
    summary: 'Get a run with its newest events, checkpoints, approvals, attempts and evidence',
    tag,
    guard: 'read',
    params: params.run,
    answers: ok(RunRecord, 'The run'),
    refuses: ['not_found'],
    async answer({ session, caller, params: { runId } }) {
      const record = await session.runs.get(caller, runId)
      return { ...record, operationAttempts: record.attempts }
    },
  }),

  route({
    id: 'listRunEvents',
    method: 'get',
    path: '/v1/runs/{runId}/events',
    summary: 'The timeline, oldest first',
    tag,
    guard: 'read',
    params: params.run,
    query: PageQuery,
    answers: ok(listSchema(RunEvent), 'One page'),
    refuses: ['not_found'],
    answer: ({ session, caller, params: { runId }, query }) =>
      numberedPage(query, (page) => session.runs.events(caller, runId, page)),
  }),

  route({
    id: 'addRunEvent',
    method: 'post',
    path: '/v1/runs/{runId}/events',
    summary: 'Add an entry to the timeline',
    tag,
    guard: 'write',
    params: params.run,
    body: RunEventAdd,
    idempotent: true,
    answers: created(RunEvent, 'The entry'),
    refuses: ['not_found', 'wrong_state', 'key_conflict', 'too_large'],
    answer: ({ session, caller, params: { runId }, body, idempotencyKey }) =>
      session.runs.addEvent(caller, runId, body, idempotencyKey),
  }),

  route({
    id: 'changeRun',
    method: 'patch',
    path: '/v1/runs/{runId}',
    summary: 'Move a run on: planned or running, and its phase',
    tag,
    guard: 'write',
    params: params.run,
    body: RunChange,
    answers: ok(Run, 'The run'),
    refuses: ['not_found', 'wrong_state'],
    answer: ({ session, caller, params: { runId }, body }) =>
      session.runs.change(caller, runId, body),
  }),

  route({
    id: 'finishRun',
    method: 'post',
    path: '/v1/runs/{runId}/finish',
    summary: 'End a run; anything but completed also aborts its turn',
    tag,
    guard: 'write',
    params: params.run,
    body: RunFinish,
    answers: ok(Run, 'The run'),
    refuses: ['not_found', 'wrong_state', 'unprocessable'],
    answer: ({ session, caller, params: { runId }, body }) =>
      session.runs.finish(caller, runId, body),
  }),

  route({
    id: 'addCheckpoint',
    method: 'post',
    path: '/v1/runs/{runId}/checkpoints',
    summary: 'Store a checkpoint',
    tag,
    guard: 'write',
    params: params.run,
    body: CheckpointCreate,
    idempotent: true,
    answers: created(Checkpoint, 'The checkpoint'),
    refuses: ['not_found', 'wrong_state', 'key_conflict', 'too_large'],
    answer: ({ session, caller, params: { runId }, body, idempotencyKey }) =>
      session.runs.addCheckpoint(caller, runId, body, idempotencyKey),
  }),

  route({
    id: 'resumeRun',
    method: 'post',
    path: '/v1/runs/{runId}/resume',
    summary: 'Take up a checkpoint: its state comes back exactly as it was stored',
    tag,
    guard: 'write',
    params: params.run,
    body: RunResume,
    idempotent: true,
    answers: ok(RunResumed, 'Run and checkpoint'),
    refuses: ['not_found', 'wrong_state', 'key_conflict'],
    answer: ({ session, caller, params: { runId }, body, idempotencyKey }) =>
      session.runs.resume(caller, runId, body.checkpointId ?? null, idempotencyKey),
  }),

  route({
    id: 'verifyRun',
    method: 'get',
    path: '/v1/runs/{runId}/verify',
    summary: 'Check the timeline: every hash, and the signed head in the ledger',
    tag,
    guard: 'read',
    params: params.run,
    answers: ok(TimelineCheck, 'What was found'),
    refuses: ['not_found', 'storage_unavailable'],
    answer: ({ session, caller, params: { runId } }) => session.runs.verify(caller, runId),
  }),
]
