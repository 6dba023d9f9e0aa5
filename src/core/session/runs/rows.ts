import { AppError } from '../../../contract/error.ts'
import type { CheckpointId, OrganisationId, RunId, SessionId } from '../../../contract/ids.ts'
import type { SessionPin } from '../../../contract/pin.ts'
import type { Run, RunCreate, RunEnd, RunEventKind, RunStatus } from '../../../contract/run.ts'
import { addToOutbox } from '../../actor/outbox.ts'
import type { Sql } from '../../ports.ts'
import { appendEvent } from '../log/events.ts'
import { listPins } from '../pins/pins.ts'
import { loadSession } from '../record/record.ts'
import { addDelivery } from '../webhooks/deliveries.ts'
import { appendToTimeline } from './timeline.ts'
import { endCause, hasEnded, nextRunStatus, type RunCause } from './transitions.ts'

export interface RunRow {
  n: number
  id: string
  intent: string
  workflow: string | null
  phase: string | null
  agent: string | null
  subagent: string | null
  model: string
  status: RunStatus
  reason: string | null
  implicit: number
  waits_for: string
  latest_checkpoint_id: string | null
  created_at: number
  updated_at: number
  completed_at: number | null
}

/** One thing that stands in the way of going on, and what a person reads about it. */
export interface Wait {
  what: string
  why: string
}

/** In the timeline and in the ledger; the run itself has all of it. */
const shownIntent = 4000

export function insertRun(
  sql: Sql,
  now: number,
  id: string,
  input: RunCreate & { implicit: boolean },
): void {
  const { model } = loadSession(sql)
  sql.run(
    `insert into runs (id, intent, workflow, phase, agent, subagent, model, status, implicit, created_at, updated_at)
     values (?, ?, ?, ?, ?, ?, ?, 'created', ?, ?, ?)`,
    id,
    input.intent,
    input.workflow ?? null,
    input.phase ?? null,
    input.agent ?? null,
    input.subagent ?? null,
    model,
    input.implicit ? 1 : 0,
    now,
    now,
  )
  const { intent, workflow = null, phase = null, agent = null, subagent = null } = input
  recordOnRun(sql, now, id, 'run.created', {
    intent: intent.slice(0, shownIntent).toWellFormed(),
    workflow,
    phase,
    agent,
    subagent,
  })
  recordGiven(sql, now, id)
  projectRun(sql, now, id)
}

/** Who works in it. The memories that the session began with are read by its first run. */
function recordGiven(sql: Sql, now: number, id: string): void {
  const pins = listPins(sql)
  for (const pin of pins.filter(({ kind }) => kind === 'agent')) recordAgentOnRun(sql, now, id, pin)
  if (sql.all('select 1 from runs limit 2').length > 1) return
  const memories = pins.filter(({ kind }) => kind === 'memory')
  if (memories.length === 0) return
  const given = memories.map(({ id: memory, revision, sha256 }) => ({
    id: memory,
    revision,
    sha256,
  }))
  recordOnRun(sql, now, id, 'memory.read', { given: 'at session start', memories: given })
}

/** A registered agent begins to work, or is sent by the one that does. */
export function recordAgentOnRun(sql: Sql, now: number, runId: string, pin: SessionPin): void {
  const { kind: mode, id: agentId, name, revision, sha256 } = pin
  recordOnRun(sql, now, runId, 'agent.invoked', { mode, agentId, name, revision, sha256 })
}

/** False where the cause means nothing in this status: late and repeated news change nothing. */
export function changeRun(
  sql: Sql,
  now: number,
  runId: string,
  cause: RunCause,
  reason: string | null,
): boolean {
  const run = mustRun(sql, runId)
  const status = nextRunStatus(run.status, cause)
  if (status === null) return false
  const ended = hasEnded(status)
  sql.run(
    `update runs set status = ?, reason = ?, updated_at = ?, completed_at = ?,
       waits_for = case when ? then '[]' else waits_for end where n = ?`,
    status,
    reason,
    now,
    ended ? now : null,
    ended ? 1 : 0,
    run.n,
  )
  recordOnRun(sql, now, runId, eventOf(run.status, status), {
    from: run.status,
    status,
    cause,
    outcome: ended ? status : null,
    reason,
  })
  appendEvent(sql, now, 'run.changed', { runId, status, reason })
  if (ended) addDelivery(sql, now, { event: 'run.ended', runId, data: { status, reason } })
  projectRun(sql, now, runId)
  return true
}

function eventOf(from: RunStatus, to: RunStatus): RunEventKind {
  if (hasEnded(to)) return 'run.stopped'
  return to === 'running' && from !== 'needs-human' ? 'run.started' : 'run.changed'
}

/** Ends it, whatever it was doing. The caller has dealt with turns and approvals. */
export function endRun(
  sql: Sql,
  now: number,
  runId: string,
  end: RunEnd,
  reason: string | null,
): boolean {
  return changeRun(sql, now, runId, endCause[end], reason)
}

/** The one way into a timeline. */
export function recordOnRun(
  sql: Sql,
  now: number,
  runId: string,
  kind: RunEventKind,
  data: Record<string, unknown>,
): number {
  return appendToTimeline(sql, now, runId, kind, data)
}

export function findRun(sql: Sql, runId: string): RunRow | undefined {
  return sql.all<RunRow>('select * from runs where id = ?', runId)[0]
}

export function mustRun(sql: Sql, runId: string): RunRow {
  const run = findRun(sql, runId)
  if (!run) throw new AppError('not_found', `No such run: "${runId}"`)
  return run
}

export function mustOpenRun(sql: Sql, runId: string): RunRow {
  const run = mustRun(sql, runId)
  if (hasEnded(run.status))
    throw new AppError('wrong_state', `Run "${runId}" has ended: it is ${run.status}`)
  return run
}

/** Of runs that have not ended. The same words as in their index. */
export const open = `status not in ('completed', 'failed', 'blocked', 'cancelled')`

/** The workflow of a run that takes changes back: nobody's prompt belongs to it. */
export const reviewWorkflow = 'gantry-review'
/** That of an execution of an ability: only its own turns belong to it. */
export const abilityWorkflow = 'gantry-ability'
/** Of the run in which an eval attempt is evaluated. */
export const evalWorkflow = 'gantry-eval'

/** The newest that has not ended. */
export function openRun(sql: Sql): RunRow | undefined {
  return sql.all<RunRow>(
    `select * from runs where ${open} and coalesce(workflow, '') not in ('${reviewWorkflow}', '${abilityWorkflow}', '${evalWorkflow}')
       order by n desc limit 1`,
  )[0]
}

export function openRuns(sql: Sql): RunRow[] {
  return sql.all<RunRow>(`select * from runs where ${open} order by n`)
}

export function listRuns(
  sql: Sql,
  page: { limit: number; after: number | null },
): { items: Run[]; next: number | null } {
  const rows = sql.all<RunRow>(
    'select * from runs where n < ? order by n desc limit ?',
    page.after ?? Number.MAX_SAFE_INTEGER,
    page.limit + 1,
  )
  const items = rows.slice(0, page.limit)
  return {
    items: items.map((row) => toRun(sql, row)),
    next: rows.length > page.limit ? (items.at(-1)?.n ?? null) : null,
  }
}

export const waitsOf = (run: RunRow) => JSON.parse(run.waits_for) as Wait[]

export function toRun(sql: Sql, row: RunRow): Run {
  const session = loadSession(sql)
  return {
    id: row.id as RunId,
    sessionId: session.id as SessionId,
    organisationId: session.organisationId as OrganisationId,
    project: session.project,
    intent: row.intent,
    workflow: row.workflow,
    phase: row.phase,
    agent: row.agent,
    subagent: row.subagent,
    adapter: 'opencode',
    model: row.model,
    status: row.status,
    outcome: hasEnded(row.status) ? (row.status as RunEnd) : null,
    reason: row.reason,
    waitsFor: waitsOf(row).map(({ what }) => what),
    latestCheckpointId: row.latest_checkpoint_id as CheckpointId | null,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    completedAt: row.completed_at,
  }
}

export function projectRun(sql: Sql, now: number, runId: string): void {
  const {
    sessionId: _,
    organisationId: __,
    waitsFor: ___,
    ...run
  } = toRun(sql, mustRun(sql, runId))
  addToOutbox(sql, now, 'run', { ...run, intent: run.intent.slice(0, shownIntent).toWellFormed() })
}

/** What is told of a turn belongs to its own run, whichever runs by now. */
export const runOfTurn = (sql: Sql, turnId: string): string | null =>
  sql.all<{ run_id: string | null }>('select run_id from turns where id = ?', turnId)[0]?.run_id ??
  null
