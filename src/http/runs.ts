import { createRoute, z } from '@hono/zod-openapi'
import { Approval } from '../contract/approval.ts'
import { Attempt } from '../contract/operation.ts'
import { page, PageQuery } from '../contract/page.ts'
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
  TimelineCheck,
} from '../contract/run.ts'
import { SessionCreate } from '../contract/session.ts'
import { type Doors, sessionOf } from './auth.ts'
import { createSession } from './create-session.ts'
import type { AppDeps } from './deps.ts'
import type { App } from './env.ts'
import { cursorNumber, IdempotencyHeader, json, jsonBody, params, refusals } from './openapi.ts'

const tags = ['runs']
const RunRecord = z.object({
  run: Run,
  events: z.array(RunEvent).describe('The newest 200, in order'),
  checkpoints: z.array(Checkpoint),
  approvals: z.array(Approval),
  attempts: z.array(Attempt),
  evidence: EvidenceSummary,
})
const Resumed = z.object({ run: Run, checkpoint: Checkpoint })

export function addRunRoutes(app: App, deps: AppDeps, doors: Doors): void {
  const sessionOfRun = (runId: string) => deps.session(sessionOf(runId))

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/sessions/{sessionId}/runs',
      summary: 'Create a run',
      tags,
      ...doors.key('write', { json: true }),
      request: {
        params: params.session,
        headers: IdempotencyHeader,
        body: jsonBody(RunCreate, true),
      },
      responses: {
        201: json(Run, 'The run'),
        ...refusals('not_found', 'key_conflict', 'session_closed'),
      },
    }),
    async (c) => {
      const key = c.req.valid('header')['idempotency-key'] ?? null
      const session = deps.session(c.req.valid('param').sessionId)
      return c.json(await session.createRun(c.get('caller'), c.req.valid('json'), key), 201)
    },
  )

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/runs',
      summary: 'Create a run without a sandbox, in a session of its own',
      tags,
      ...doors.key('write', { json: true }),
      request: { headers: IdempotencyHeader, body: jsonBody(LoneRunCreate, true) },
      responses: { 201: json(Run, 'The run'), ...refusals('key_conflict') },
    }),
    async (c) => {
      const caller = c.get('caller')
      const key = c.req.valid('header')['idempotency-key'] ?? null
      const { project, ...run } = c.req.valid('json')
      const title = run.intent.slice(0, 200).toWellFormed()
      const input = SessionCreate.parse({ project, title, sandbox: 'none' })
      const session = await createSession(deps, caller, input, key && `run ${key}`)
      return c.json(await deps.session(session.id).createRun(caller, run, key), 201)
    },
  )

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/sessions/{sessionId}/runs',
      summary: 'List the runs of a session, newest first',
      tags,
      ...doors.key('read'),
      request: { params: params.session, query: PageQuery },
      responses: { 200: json(page(Run), 'One page'), ...refusals('not_found') },
    }),
    async (c) => {
      const { limit, cursor } = c.req.valid('query')
      const session = deps.session(c.req.valid('param').sessionId)
      const { items, next } = await session.runs(c.get('caller'), {
        limit,
        after: cursorNumber(cursor),
      })
      return c.json({ items, nextCursor: next === null ? null : String(next) }, 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/runs/{runId}',
      summary: 'Get a run with its newest events, checkpoints, approvals, attempts and evidence',
      tags,
      ...doors.key('read'),
      request: { params: params.run },
      responses: { 200: json(RunRecord, 'The run'), ...refusals('not_found') },
    }),
    async (c) => {
      const { runId } = c.req.valid('param')
      return c.json(await sessionOfRun(runId).run(c.get('caller'), runId), 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/runs/{runId}/events',
      summary: 'The timeline, oldest first',
      tags,
      ...doors.key('read'),
      request: { params: params.run, query: PageQuery },
      responses: { 200: json(page(RunEvent), 'One page'), ...refusals('not_found') },
    }),
    async (c) => {
      const { runId } = c.req.valid('param')
      const { limit, cursor } = c.req.valid('query')
      const page = { limit, after: cursorNumber(cursor) }
      const { items, next } = await sessionOfRun(runId).runEvents(c.get('caller'), runId, page)
      return c.json({ items, nextCursor: next === null ? null : String(next) }, 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/runs/{runId}/events',
      summary: 'Add an entry to the timeline',
      tags,
      ...doors.key('write', { json: true }),
      request: { params: params.run, body: jsonBody(RunEventAdd, true) },
      responses: {
        201: json(RunEvent, 'The entry'),
        ...refusals('not_found', 'wrong_state', 'too_large'),
      },
    }),
    async (c) => {
      const { runId } = c.req.valid('param')
      const event = c.req.valid('json')
      return c.json(await sessionOfRun(runId).addRunEvent(c.get('caller'), runId, event), 201)
    },
  )

  app.openapi(
    createRoute({
      method: 'patch',
      path: '/v1/runs/{runId}',
      summary: 'Move a run on: planned or running, and its phase',
      tags,
      ...doors.key('write', { json: true }),
      request: { params: params.run, body: jsonBody(RunChange, true) },
      responses: { 200: json(Run, 'The run'), ...refusals('not_found', 'wrong_state') },
    }),
    async (c) => {
      const { runId } = c.req.valid('param')
      const change = c.req.valid('json')
      return c.json(await sessionOfRun(runId).changeRun(c.get('caller'), runId, change), 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/runs/{runId}/finish',
      summary: 'End a run; anything but completed also aborts its turn',
      tags,
      ...doors.key('write', { json: true }),
      request: { params: params.run, body: jsonBody(RunFinish, true) },
      responses: {
        200: json(Run, 'The run'),
        ...refusals('not_found', 'wrong_state', 'unprocessable'),
      },
    }),
    async (c) => {
      const { runId } = c.req.valid('param')
      const finish = c.req.valid('json')
      return c.json(await sessionOfRun(runId).finishRun(c.get('caller'), runId, finish), 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/runs/{runId}/checkpoints',
      summary: 'Store a checkpoint',
      tags,
      ...doors.key('write', { json: true }),
      request: { params: params.run, body: jsonBody(CheckpointCreate, true) },
      responses: {
        201: json(Checkpoint, 'The checkpoint'),
        ...refusals('not_found', 'wrong_state', 'too_large'),
      },
    }),
    async (c) => {
      const { runId } = c.req.valid('param')
      const checkpoint = c.req.valid('json')
      const session = sessionOfRun(runId)
      return c.json(await session.addCheckpoint(c.get('caller'), runId, checkpoint), 201)
    },
  )

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/runs/{runId}/resume',
      summary: 'Take up a checkpoint: its state comes back exactly as it was stored',
      tags,
      ...doors.key('write', { json: true }),
      request: { params: params.run, body: jsonBody(RunResume, true) },
      responses: {
        200: json(Resumed, 'Run and checkpoint'),
        ...refusals('not_found', 'wrong_state'),
      },
    }),
    async (c) => {
      const { runId } = c.req.valid('param')
      const checkpointId = c.req.valid('json').checkpointId ?? null
      const session = sessionOfRun(runId)
      return c.json(await session.resumeRun(c.get('caller'), runId, checkpointId), 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/runs/{runId}/verify',
      summary: 'Check the timeline: every hash, and the signed head in the ledger',
      tags,
      ...doors.key('read'),
      request: { params: params.run },
      responses: {
        200: json(TimelineCheck, 'What was found'),
        ...refusals('not_found', 'storage_unavailable'),
      },
    }),
    async (c) => {
      const { runId } = c.req.valid('param')
      return c.json(await sessionOfRun(runId).verifyRun(c.get('caller'), runId), 200)
    },
  )
}
