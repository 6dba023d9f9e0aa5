import { AppError } from '../../../contract/error.ts'
import type { EventData } from '../../../contract/events.ts'
import type { RunId, SessionId, TurnId } from '../../../contract/ids.ts'
import type { CommandBody } from '../../../contract/link.ts'
import {
  maxQueuedTurns,
  type PromptCreate,
  type Turn,
  type TurnState,
} from '../../../contract/turn.ts'
import { clearDeadline, hurryDeadline } from '../../actor/deadlines.ts'
import { addToOutbox } from '../../actor/outbox.ts'
import { nextPageStart, pageOf } from '../../actor/paging.ts'
import type { Sql } from '../../ports.ts'
import {
  isBlocked,
  spentReasons,
  startSpendingClock,
  stopSpendingClock,
} from '../budget/spending.ts'
import { loadAttemptTerms } from '../record/attempt-terms.ts'
import { noteTurnEnded, noteTurnStarted } from './run-turns.ts'
import { addCommand, finishCommand, steerPrefix } from '../commands/rows.ts'
import { appendEvent } from '../log/events.ts'
import { executionNotice } from '../executions/notice.ts'
import { offerProposalNotice } from '../offers/proposals.ts'
import { generationNotice } from '../generations/notice.ts'
import { unwatchTurnSilence, watchTurnSilence } from './silence.ts'

interface TurnRow {
  n: number
  id: string
  /** Null in sessions older than runs. */
  run_id: string | null
  state: TurnState
  prompt: string
  message_id: string
  /** OpenCode's; null: the session's own. */
  agent: string | null
  text: string | null
  reason: string | null
  abort_requested: number
  input_tokens: number
  output_tokens: number
  created_at: number
  started_at: number | null
  ended_at: number | null
}

/** The session's own characters first: a turn id alone leads to its session. */
export const turnIdOf = (sessionId: string, suffix: string) => `trn_${sessionId.slice(4)}${suffix}`

export function addTurn(
  sql: Sql,
  now: number,
  turn: {
    id: string
    runId: string
    messageSuffix: string
    prompt: string
    agent?: string | null
  },
): void {
  if (countQueuedTurns(sql) >= maxQueuedTurns) {
    throw new AppError(
      'queue_full',
      `Cannot queue the prompt: ${maxQueuedTurns} are already waiting`,
    )
  }
  sql.run(
    `insert into turns (id, run_id, state, prompt, message_id, created_at, agent) values (?, ?, 'queued', ?, ?, ?, ?)`,
    turn.id,
    turn.runId,
    turn.prompt,
    opencodeMessageId(now, turn.messageSuffix),
    now,
    turn.agent ?? null,
  )
  appendEvent(sql, now, 'turn.queued', { turnId: turn.id, position: countQueuedTurns(sql) })
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
  const notice = executionNotice(sql) ?? offerProposalNotice(sql, now, steer.input.text)
  addCommand(sql, now, {
    id: `${steerPrefix}${steer.messageSuffix}`,
    generation: steer.generation,
    kind: 'prompt',
    body: {
      ...promptBody(
        running.id,
        opencodeMessageId(now, steer.messageSuffix),
        steer.input.text,
        true,
      ),
      ...(notice !== null && { notice }),
      ...(running.agent !== null && { agent: running.agent }),
    },
  })
  appendEvent(sql, now, 'turn.steered', { turnId: running.id, prompt: steer.input.text })
  return running.id
}

/** Delivers the oldest queued prompt if no turn is running and none is to wait for a budget. The caller knows that the sandbox is ready. */
export function startNextTurn(sql: Sql, now: number, generation: number): void {
  if (runningTurn(sql) || spentReasons(sql, now).length > 0) return
  const next = sql.all<TurnRow>(`select * from turns where state = 'queued' order by n limit 1`)[0]
  if (!next) return
  const notices = [
    generationNotice(sql, now, generation),
    executionNotice(sql) ?? offerProposalNotice(sql, now, next.prompt),
  ].filter((one) => one !== null)
  sql.run(`update turns set state = 'running', started_at = ? where n = ?`, now, next.n)
  addCommand(sql, now, {
    id: next.id,
    generation,
    kind: 'prompt',
    body: {
      ...promptBody(next.id, next.message_id, next.prompt, false),
      ...(notices.length > 0 && { notice: notices.join('\n\n') }),
      ...(next.agent !== null && { agent: next.agent }),
      ...attemptBody(sql),
    },
  })
  watchTurnSilence(sql, now)
  appendEvent(sql, now, 'turn.started', { turnId: next.id, prompt: next.prompt })
  noteTurnStarted(sql, now, next.run_id, next.id)
  startSpendingClock(sql, now)
  projectTurn(sql, now, next.id)
}

/** In the session of an eval attempt the agent does more: see `AttemptTerms`. */
function attemptBody(sql: Sql): Pick<CommandBody<'prompt'>, 'attempt'> {
  const terms = loadAttemptTerms(sql)
  return terms === null ? {} : { attempt: { logFile: terms.logFile } }
}

function promptBody(
  turnId: string,
  messageId: string,
  text: string,
  steer: boolean,
): CommandBody<'prompt'> {
  return { turnId, messageId, text, steer }
}

type TurnEnd = Pick<EventData<'turn.ended'>, 'turnId' | 'state' | 'reason' | 'text'>

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
  unwatchTurnSilence(sql)
  // A session whose automation run is completed stays open for its last words only.
  hurryDeadline(sql, 'close', now)
  // A prompt that has not been delivered by now must not start OpenCode any more.
  finishCommand(sql, end.turnId, false, 'The turn has ended')
  stopSpendingClock(sql, now)
  noteTurnEnded(sql, now, row.run_id, { id: row.id, state: end.state, reason: end.reason })
  projectTurn(sql, now, end.turnId)
  return true
}

/** An end that the control plane itself decides: the log gets the event that no agent will send. */
export function endTurnHere(sql: Sql, now: number, end: Omit<TurnEnd, 'text'>): void {
  if (!endTurn(sql, now, { ...end, text: null })) return
  appendEvent(sql, now, 'turn.ended', { ...end, text: null, diff: null })
}

/** Of one run, or of all. */
export function dropQueuedTurns(sql: Sql, now: number, runId: string | null, why: string): void {
  const reason = `Aborted while queued: ${why}`
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

export function addTurnTokens(sql: Sql, turnId: string, input: number, output: number): void {
  sql.run(
    'update turns set input_tokens = input_tokens + ?, output_tokens = output_tokens + ? where id = ?',
    input,
    output,
    turnId,
  )
}

/** Of a turn, not of what was said into it: the session of OpenCode that has it. */
export function noteTurnDelivered(sql: Sql, turnId: string, opencodeSessionId?: string): void {
  if (opencodeSessionId === undefined) return
  sql.run(
    'update turns set opencode_session_id = ? where id = ? and opencode_session_id is null',
    opencodeSessionId,
    turnId,
  )
}

export function runningTurn(sql: Sql): TurnRow | undefined {
  return sql.all<TurnRow>(`select * from turns where state = 'running' limit 1`)[0]
}

/** The newest that has begun, if it was interrupted at or after this time. */
export function turnInterruptedSince(sql: Sql, since: number): string | null {
  const last = sql.all<TurnRow>(
    'select * from turns where started_at is not null order by n desc limit 1',
  )[0]
  return last?.state === 'interrupted' && (last.ended_at ?? 0) >= since ? last.id : null
}

export function countQueuedTurns(sql: Sql): number {
  return sql.all<{ c: number }>(`select count(*) as c from turns where state = 'queued'`)[0]?.c ?? 0
}

/** Whether a queued turn waits for the sandbox, and not for a budget. */
export const wantsSandbox = (sql: Sql): boolean => countQueuedTurns(sql) > 0 && !isBlocked(sql)

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
  const size = 'length(prompt) + coalesce(length(text), 0)'
  const rows = pageOf<TurnRow>(sql, { table: 'turns', size }, page)
  return {
    items: rows.map((row) => toTurn(sql, sessionId, row)),
    next: nextPageStart(sql, 'turns', rows),
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

export function projectTurn(sql: Sql, now: number, id: string): void {
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

/** Ends the running turn as interrupted. Returns its id, if there was one. */
export function interruptTurn(sql: Sql, now: number, reason: string): string | null {
  const running = runningTurn(sql)
  if (running) endTurnHere(sql, now, { turnId: running.id, state: 'interrupted', reason })
  return running?.id ?? null
}

/**
 * A message id in OpenCode's own form. OpenCode compares message ids to find the newest one, so ours carry the time in
 * the same twelve hexadecimal digits (milliseconds times 4096, the low 48 bits); everybody else treats them as opaque.
 */
function opencodeMessageId(now: number, suffix: string): string {
  const time = (BigInt(now) * 4096n) & 0xffff_ffff_ffffn
  return `msg_${time.toString(16).padStart(12, '0')}${suffix.slice(0, 14).padEnd(14, '0')}`
}
