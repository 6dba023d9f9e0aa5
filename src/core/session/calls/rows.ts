import type { CallState, ToolResult, ToolCall } from '../../../contract/tool.ts'
import { isName, nameInOutbox } from '../../actor/outbox.ts'
import type { OutboxRow, Sql } from '../../ports.ts'
import { hashText } from '../../hash.ts'
import { appendEvent } from '../log/events.ts'
import {
  recordCallEvidence,
  recordCallEvidenceBegun,
  recordCallEvidenceError,
  runOfCallEvidence,
} from './evidence.ts'
import { nextPageStart, pageOf } from '../../actor/paging.ts'

/** What a callback finds when it arrives. Every branch is a row of the table in SPEC.md, area CALL. */
export type Begin =
  | { kind: 'run'; operationId: string; attempt: number }
  | { kind: 'join' }
  | { kind: 'replay'; body: string }
  | { kind: 'conflict' }
  | { kind: 'closed' }

export interface BeginInput {
  tool: string
  toolCallId: string
  operationId: string
  /** What was sent, as canonical JSON. */
  sent: string
  /** The same without secrets, which is what is kept. */
  args: string
  generation: number
  /** The instance that would run it. A pending row of another instance has lost its runner, at once. */
  runner: string
  /** Whether this instance is running it right now. */
  running: boolean
  repeatable: boolean
  sessionOpen: boolean
}

const closedBefore = 'the session was closed before it settled'

export interface CallRow {
  n: number
  tool: string
  tool_call_id: string
  operation_id: string
  args: string
  args_hash: string
  state: CallState
  runner: string | null
  generation: number
  attempts: number
  conflicts: number
  response: string | null
  error: string | null
  started_at: number
  settled_at: number | null
  run_id: string | null
}

type Begun = Pick<CallRow, 'tool' | 'tool_call_id' | 'operation_id' | 'attempts'>

interface End {
  state: 'settled' | 'failed' | 'unknown'
  response: string | null
  error: string | null
  success: boolean | null
}

/** Inside the caller's commit, like everything here that writes: when this says `run`, the pending row is there. */
export function beginCall(sql: Sql, now: number, input: BeginInput): Begin {
  const begun = input.sessionOpen ? startCall(sql, now, input) : undefined
  if (begun) return begun
  const row = loadCall(sql, input.tool, input.toolCallId)
  if (!row) return { kind: 'closed' }
  if (!isSent(row, input.sent)) return recordConflict(sql, now, row)
  if (row.response !== null) return { kind: 'replay', body: row.response }
  if (row.state === 'pending' && input.running) return { kind: 'join' }
  if (!input.sessionOpen) return giveUp(sql, now, row, closedBefore)
  if (row.state === 'pending' && row.runner === null) return runAgain(sql, now, row, input)
  if (input.repeatable) return runAgain(sql, now, row, input)
  const cause = row.state === 'failed' ? 'it failed half-way' : 'the process that ran it was lost'
  return giveUp(sql, now, row, cause)
}

/** Of a call whose arguments are kept as they were sent. Those of which a secret was taken out are compared by a hash. */
const asSent = ''

const isSent = (row: Pick<CallRow, 'args' | 'args_hash'>, sent: string): boolean =>
  row.args_hash === asSent ? row.args === sent : row.args_hash === hashText(sent)

/** Undefined if the id is known. One statement decides, since most ids are new. */
function startCall(sql: Sql, now: number, input: BeginInput): Begin | undefined {
  const { tool, toolCallId, operationId } = input
  const runId = runOfCallEvidence(sql, tool)
  const inserted = sql.all(
    `insert into calls (tool, tool_call_id, operation_id, args, args_hash, state, runner, generation, attempts, started_at, run_id)
     values (?, ?, ?, ?, ?, 'pending', ?, ?, 1, ?, ?) on conflict do nothing returning n`,
    tool,
    toolCallId,
    operationId,
    input.args,
    input.args === input.sent ? asSent : hashText(input.sent),
    input.runner,
    input.generation,
    now,
    runId,
  )
  if (inserted.length === 0) return undefined
  if (runId !== null) recordCallEvidenceBegun(sql, now, { tool, toolCallId, operationId, runId })
  return announceStart(sql, now, {
    tool,
    tool_call_id: toolCallId,
    operation_id: operationId,
    attempts: 1,
  })
}

function runAgain(sql: Sql, now: number, row: CallRow, input: BeginInput): Begin {
  const again = sql.all<CallRow>(
    `update calls set state = 'pending', runner = ?, attempts = attempts + 1, error = null where n = ? returning *`,
    input.runner,
    row.n,
  )[0] as CallRow
  nameInOutbox(sql, now, 'call', String(again.n))
  return announceStart(sql, now, again)
}

function announceStart(sql: Sql, now: number, row: Begun): Begin {
  const started = { operationId: row.operation_id, attempt: row.attempts }
  appendEvent(sql, now, 'call.started', {
    tool: row.tool,
    toolCallId: row.tool_call_id,
    ...started,
  })
  return { kind: 'run', ...started }
}

function recordConflict(sql: Sql, now: number, row: CallRow): Begin {
  sql.run('update calls set conflicts = conflicts + 1 where n = ?', row.n)
  appendEvent(sql, now, 'call.conflict', { tool: row.tool, toolCallId: row.tool_call_id })
  return { kind: 'conflict' }
}

function giveUp(sql: Sql, now: number, row: CallRow, cause: string): Begin {
  const answer: ToolResult = {
    success: false,
    result: `Outcome unknown: ${cause}, and "${row.tool}" must not run twice. Check what it changed before you call it again with a new id`,
  }
  const body = JSON.stringify(answer)
  endCall(sql, now, keyOf(row), {
    state: 'unknown',
    response: body,
    error: cause,
    success: false,
  })
  return { kind: 'replay', body }
}

/** The session is closed: what has no runner, or one that is gone, will not be settled by anybody. */
export function abandonCalls(sql: Sql, now: number, runner: string): void {
  const lost = sql.all<CallRow>(
    `select * from calls where state = 'pending' and (runner is null or runner <> ?) order by n`,
    runner,
  )
  for (const row of lost) giveUp(sql, now, row, closedBefore)
}

export function abandonFencedCalls(sql: Sql, now: number, rows: readonly CallRow[]): void {
  for (const row of rows) giveUp(sql, now, row, 'its sandbox was replaced before it settled')
}

/** Stores the answer and returns the bytes that every caller with this id gets from now on. */
export function settleCall(
  sql: Sql,
  now: number,
  key: { tool: string; toolCallId: string; runner: string },
  result: ToolResult,
): string {
  const body = JSON.stringify(result)
  const { success } = result
  if (endCall(sql, now, key, { state: 'settled', response: body, error: null, success }))
    return body
  const row = loadCall(sql, key.tool, key.toolCallId)
  if (!row) throw new Error(`Cannot settle call "${key.toolCallId}": it was never begun`)
  // Somebody else has ended it while this runner was thought dead: the first answer stays.
  return row.response ?? body
}

/** The handler threw: a bug, answered 500. The same id runs again only if the handler may be repeated. */
export function failCall(
  sql: Sql,
  now: number,
  key: { tool: string; toolCallId: string },
  error: string,
): void {
  endCall(sql, now, key, {
    state: 'failed',
    response: null,
    error: error.slice(0, 2000),
    success: null,
  })
}

/** Nothing was done because something it needs is away: still pending, and whoever asks next runs it. */
export function releaseCall(sql: Sql, key: { tool: string; toolCallId: string }): void {
  sql.run(
    `update calls set runner = null where tool = ? and tool_call_id = ? and state = 'pending'`,
    key.tool,
    key.toolCallId,
  )
}

/** False if it has its answer already, or was never begun. */
function endCall(
  sql: Sql,
  now: number,
  key: { tool: string; toolCallId: string },
  end: End,
): boolean {
  const row = sql.all<Pick<CallRow, 'operation_id' | 'started_at' | 'run_id'>>(
    `update calls set state = ?, runner = null, response = ?, error = ?, settled_at = ?
     where tool = ? and tool_call_id = ? and response is null returning operation_id, started_at, run_id`,
    end.state,
    end.response,
    end.error,
    now,
    key.tool,
    key.toolCallId,
  )[0]
  if (!row) return false
  appendEvent(sql, now, 'call.ended', {
    tool: key.tool,
    toolCallId: key.toolCallId,
    operationId: row.operation_id,
    state: end.state,
    success: end.success,
    durationMs: now - row.started_at,
  })
  const { run_id: runId, operation_id: operationId } = row
  if (runId !== null) tellRun(sql, now, { ...key, runId, operationId }, end)
  return true
}

/** In the commit that ends the call. A handler that threw may run again: only what stays is evidence. */
function tellRun(
  sql: Sql,
  now: number,
  { tool, toolCallId, runId, operationId }: Parameters<typeof recordCallEvidence>[2],
  end: End,
): void {
  const call = { tool, toolCallId, runId, operationId }
  if (end.response === null) recordCallEvidenceError(sql, now, call, end.error ?? '')
  else
    recordCallEvidence(sql, now, call, {
      success: end.success === true,
      reason: reasonOf(end),
      data: (JSON.parse(end.response) as ToolResult).data,
    })
}

const reasonOf = ({ response, error }: End): string | null =>
  error ?? (response === null ? null : (JSON.parse(response) as ToolResult).result.slice(0, 2000))

const keyOf = ({ tool, tool_call_id }: CallRow) => ({ tool, toolCallId: tool_call_id })

function loadCall(sql: Sql, tool: string, toolCallId: string): CallRow | undefined {
  return sql.all<CallRow>(
    'select * from calls where tool = ? and tool_call_id = ?',
    tool,
    toolCallId,
  )[0]
}

/**
 * Calls are named in the outbox when they begin and when they end. What goes to libSQL is each call as it is now: most
 * have ended by then, and their arguments and answers are kept and sent a single time.
 */
export function describeCalls(sql: Sql, rows: readonly OutboxRow[]): OutboxRow[] {
  const named = rows.filter(isNamedCall).map(({ payload }) => payload)
  if (named.length === 0) return [...rows]
  const payloads = payloadsOf(sql, named)
  return rows.map((row) =>
    // A call is never deleted before its session; if it were, its row would become a dead letter.
    isNamedCall(row) ? { ...row, payload: payloads.get(row.payload) ?? '{}' } : row,
  )
}

/** Rows of earlier releases bring their payload themselves. */
const isNamedCall = (row: OutboxRow) => row.kind === 'call' && isName(row)

/**
 * SQLite puts them together: to hand over each column of hundreds of rows costs more than all of this. One that runs
 * again still has the time at which it failed.
 */
function payloadsOf(sql: Sql, numbers: string[]): Map<string, string> {
  const calls = sql.all<{ n: number; payload: string }>(
    `select n, json_object('tool', tool, 'toolCallId', tool_call_id, 'operationId', operation_id,
       'generation', generation, 'status', state, 'attempts', attempts, 'input', args, 'output', response,
       'error', error, 'durationMs', completed_at - started_at, 'startedAt', started_at,
       'completedAt', completed_at) as payload
     from (select *, iif(state = 'pending', null, settled_at) as completed_at from calls)
     where n in (select value from json_each(?))`,
    `[${numbers.join(',')}]`,
  )
  return new Map(calls.map(({ n, payload }) => [String(n), payload]))
}

export function listCalls(
  sql: Sql,
  page: { limit: number; after: number | null },
): { items: ToolCall[]; next: number | null } {
  const size = 'length(args) + coalesce(length(response), 0)'
  const rows = pageOf<CallRow>(sql, { table: 'calls', size }, page)
  return { items: rows.map(toToolCall), next: nextPageStart(sql, 'calls', rows) }
}

function toToolCall(row: CallRow): ToolCall {
  return {
    tool: row.tool,
    toolCallId: row.tool_call_id,
    operationId: row.operation_id,
    state: row.state,
    generation: row.generation,
    attempts: row.attempts,
    conflicts: row.conflicts,
    args: JSON.parse(row.args) as unknown,
    response: row.response === null ? null : (JSON.parse(row.response) as ToolResult),
    error: row.error,
    startedAt: row.started_at,
    settledAt: row.settled_at,
  }
}

export function countActiveCalls(sql: Sql): number {
  return (
    sql.all<{ c: number }>(`select count(*) as c from calls where state = 'pending'`)[0]?.c ?? 0
  )
}

/** Asked for by sandboxes before this one: nobody of them can ask again. */
export const pendingCallsBefore = (sql: Sql, generation: number): CallRow[] =>
  sql.all(`select * from calls where state = 'pending' and generation < ? order by n`, generation)
