import { AppError } from '../../contract/error.ts'
import type { EventData } from '../../contract/events.ts'
import type { RunId, SessionId, TurnId } from '../../contract/ids.ts'
import type { CommandBody } from '../../contract/link.ts'
import {
  maxQueuedTurns,
  type PromptCreate,
  type Turn,
  type TurnState,
} from '../../contract/turn.ts'
import { clearDeadline, hurryDeadline, setDeadline } from '../deadlines.ts'
import { addToOutbox } from '../outbox.ts'
import type { Sql } from '../ports.ts'
import { isBlocked, spentReasons, startClock, stopClock } from '../runs/budget.ts'
import { noteTurnEnded, noteTurnStarted } from '../runs/run-turns.ts'
import { addCommand, dropOpenSteers, finishCommand, steerPrefix } from './commands.ts'
import { appendEvent } from './events.ts'
import { opencodeMessageId } from './message-id.ts'
import { noticeOf } from './notice.ts'

interface TurnRow {
  n: number
  id: string
  /** Null in sessions older than runs. */
  run_id: string | null
  state: TurnState
  prompt: string
  message_id: string
  text: string | null
  reason: string | null
  abort_requested: number
  input_tokens: number
  output_tokens: number
  created_at: number
  started_at: number | null
  ended_at: number | null
}

/** An abort that the sandbox does not confirm in this time ends the turn anyway. */
const abortGraceMs = 30_000

/** The session's own characters first: a turn id alone leads to its session. */
export const turnIdOf = (sessionId: string, suffix: string) => `trn_${sessionId.slice(4)}${suffix}`

export function addTurn(
  sql: Sql,
  now: number,
  turn: { id: string; runId: string; messageSuffix: string; prompt: string },
): void {
  if (countQueued(sql) >= maxQueuedTurns) {
    throw new AppError(
      'queue_full',
      `Cannot queue the prompt: ${maxQueuedTurns} are already waiting`,
    )
  }
  sql.run(
    `insert into turns (id, run_id, state, prompt, message_id, created_at) values (?, ?, 'queued', ?, ?, ?)`,
    turn.id,
    turn.runId,
    turn.prompt,
    opencodeMessageId(now, turn.messageSuffix),
    now,
  )
  appendEvent(sql, now, 'turn.queued', { turnId: turn.id, position: countQueued(sql) })
  projectTurn(sql, now, turn.id)
}

/** Merges into the running turn at its next step. Null if there is none, or only one that is being aborted. */
export function steerTurn(
  sql: Sql,
  now: number,
  steer: { generation: number; messageSuffix: string; input: PromptCreate },
): string | null {
  const running = runningTurn(sql)
  if (!running || running.abort_requested) return null
  addCommand(sql, now, {
    id: `${steerPrefix}${steer.messageSuffix}`,
    generation: steer.generation,
    kind: 'prompt',
    body: promptBody(
      running.id,
      opencodeMessageId(now, steer.messageSuffix),
      steer.input.text,
      true,
    ),
  })
  appendEvent(sql, now, 'turn.steered', { turnId: running.id, prompt: steer.input.text })
  return running.id
}

/** Delivers the oldest queued prompt if no turn is running and none is to wait for a budget. The caller knows that the sandbox is ready. */
export function startNextTurn(sql: Sql, now: number, generation: number): void {
  if (runningTurn(sql) || spentReasons(sql, now).length > 0) return
  const next = sql.all<TurnRow>(`select * from turns where state = 'queued' order by n limit 1`)[0]
  if (!next) return
  const notice = noticeOf(sql, now, generation)
  sql.run(`update turns set state = 'running', started_at = ? where n = ?`, now, next.n)
  addCommand(sql, now, {
    id: next.id,
    generation,
    kind: 'prompt',
    body: {
      ...promptBody(next.id, next.message_id, next.prompt, false),
      ...(notice === null ? {} : { notice }),
    },
  })
  appendEvent(sql, now, 'turn.started', { turnId: next.id, prompt: next.prompt })
  noteTurnStarted(sql, now, next.run_id, next.id)
  startClock(sql, now)
  projectTurn(sql, now, next.id)
}

function promptBody(
  turnId: string,
  messageId: string,
  text: string,
  steer: boolean,
): CommandBody<'prompt'> {
  return { turnId, messageId, text, steer }
}

export type TurnEnd = Pick<EventData<'turn.ended'>, 'turnId' | 'state' | 'reason' | 'text'>

/** False if the turn is not running: an end comes once, whoever reports it first. */
export function endTurn(sql: Sql, now: number, end: TurnEnd): boolean {
  const row = loadTurnRow(sql, end.turnId)
  if (row?.state !== 'running') return false
  sql.run(
    'update turns set state = ?, reason = ?, text = coalesce(?, text), ended_at = ? where n = ?',
    end.state,
    end.reason,
    end.text,
    now,
    row.n,
  )
  clearDeadline(sql, 'turn.abort')
  // A session whose automation run is completed stays open for its last words only.
  hurryDeadline(sql, 'close', now)
  // A prompt that has not been delivered by now must not start OpenCode any more.
  finishCommand(sql, end.turnId, false, 'The turn has ended')
  stopClock(sql, now)
  noteTurnEnded(sql, now, row.run_id, { id: row.id, state: end.state, reason: end.reason })
  projectTurn(sql, now, end.turnId)
  return true
}

/** An end that the control plane itself decides: the log gets the event that no agent will send. */
export function endTurnHere(sql: Sql, now: number, end: Omit<TurnEnd, 'text'>): void {
  if (!endTurn(sql, now, { ...end, text: null })) return
  appendEvent(sql, now, 'turn.ended', { ...end, text: null, diff: null })
}

/** Of the running turn and of all that wait. */
export function requestAbort(sql: Sql, now: number, generation: number): void {
  dropQueued(sql, now, null)
  abortRunning(sql, now, generation)
}

export function abortRunning(sql: Sql, now: number, generation: number): void {
  // What was to be merged would otherwise come back as a turn of its own.
  dropOpenSteers(sql, 'The turn was aborted')
  const running = runningTurn(sql)
  if (!running || running.abort_requested) return
  sql.run('update turns set abort_requested = 1 where n = ?', running.n)
  addCommand(sql, now, {
    id: `abort_${running.id}`,
    generation,
    kind: 'abort',
    body: { turnId: running.id },
  })
  setDeadline(sql, 'turn.abort', now + abortGraceMs)
}

/** Of one run, or of all. */
export function dropQueued(sql: Sql, now: number, runId: string | null): void {
  const reason = 'aborted while queued'
  const queued = sql.all<TurnRow>(
    `select * from turns where state = 'queued' and (?1 is null or run_id = ?1) order by n`,
    runId,
  )
  for (const row of queued) {
    sql.run(
      `update turns set state = 'aborted', reason = ?, ended_at = ? where n = ?`,
      reason,
      now,
      row.n,
    )
    const end = { turnId: row.id, state: 'aborted', reason, text: null, diff: null } as const
    appendEvent(sql, now, 'turn.ended', end)
    noteTurnEnded(sql, now, row.run_id, { id: row.id, state: 'aborted', reason })
    projectTurn(sql, now, row.id)
  }
}

export function addTokens(sql: Sql, turnId: string, input: number, output: number): void {
  sql.run(
    'update turns set input_tokens = input_tokens + ?, output_tokens = output_tokens + ? where id = ?',
    input,
    output,
    turnId,
  )
}

export function runningTurn(sql: Sql): TurnRow | undefined {
  return sql.all<TurnRow>(`select * from turns where state = 'running' limit 1`)[0]
}

/** The newest that has begun, if it was interrupted at or after this time. */
export function interruptedSince(sql: Sql, since: number): string | null {
  const last = sql.all<TurnRow>(
    'select * from turns where started_at is not null order by n desc limit 1',
  )[0]
  return last?.state === 'interrupted' && (last.ended_at ?? 0) >= since ? last.id : null
}

export function countQueued(sql: Sql): number {
  return sql.all<{ c: number }>(`select count(*) as c from turns where state = 'queued'`)[0]?.c ?? 0
}

/** Whether a queued turn waits for the sandbox, and not for a budget. */
export const wantsSandbox = (sql: Sql): boolean => countQueued(sql) > 0 && !isBlocked(sql)

function loadTurnRow(sql: Sql, id: string): TurnRow | undefined {
  return sql.all<TurnRow>('select * from turns where id = ?', id)[0]
}

export function loadTurn(sql: Sql, sessionId: string, id: string): Turn {
  const row = loadTurnRow(sql, id)
  if (!row) throw new AppError('not_found', `No such turn: "${id}"`)
  return toTurn(sql, sessionId, row)
}

export function listTurns(
  sql: Sql,
  sessionId: string,
  page: { limit: number; after: number | null },
): { items: Turn[]; next: number | null } {
  const rows = sql.all<TurnRow>(
    'select * from turns where n > ? order by n limit ?',
    page.after ?? 0,
    page.limit + 1,
  )
  const shown = rows.slice(0, page.limit)
  return {
    items: shown.map((row) => toTurn(sql, sessionId, row)),
    next: rows.length > page.limit ? (shown.at(-1)?.n ?? null) : null,
  }
}

function toTurn(sql: Sql, sessionId: string, row: TurnRow): Turn {
  const ahead = () =>
    sql.all<{ c: number }>(
      `select count(*) as c from turns where state = 'queued' and n <= ?`,
      row.n,
    )[0]?.c ?? 1
  return {
    id: row.id as TurnId,
    sessionId: sessionId as SessionId,
    runId: row.run_id as RunId | null,
    state: row.state,
    position: row.state === 'queued' ? ahead() : null,
    prompt: row.prompt,
    text: row.text,
    reason: row.reason,
    tokens: { input: row.input_tokens, output: row.output_tokens },
    createdAt: row.created_at,
    startedAt: row.started_at,
    endedAt: row.ended_at,
  }
}

function projectTurn(sql: Sql, now: number, id: string): void {
  const row = loadTurnRow(sql, id)
  if (!row) return
  addToOutbox(sql, now, 'turn', {
    id: row.id,
    runId: row.run_id,
    state: row.state,
    reason: row.reason,
    inputTokens: row.input_tokens,
    outputTokens: row.output_tokens,
    createdAt: row.created_at,
    startedAt: row.started_at,
    endedAt: row.ended_at,
  })
}
