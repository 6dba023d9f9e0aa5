import type { Ask, AskAnswer, GateDecision } from '../../contract/ask.ts'
import { AppError } from '../../contract/error.ts'
import type { AskId, SessionId } from '../../contract/ids.ts'
import type { UpMessage } from '../../contract/link.ts'
import type { GateRules } from '../../contract/session.ts'
import { clearDeadline, setDeadline } from '../deadlines.ts'
import type { Sql } from '../ports.ts'
import { appendEvent } from './events.ts'

interface AskRow {
  n: number
  id: string
  generation: number
  tool: string
  call_id: string
  input: string
  state: 'open' | 'answered'
  decision: GateDecision | null
  reason: string | null
  actor: string | null
  asked_at: number
  deadline_at: number | null
  answered_at: number | null
}

export interface Answer {
  askId: string
  decision: GateDecision
  reason: string
}

type Question = Extract<UpMessage, { t: 'ask' }>

/** What the session's own rules say. `ask` parks the question for a person. */
export function decideGate(
  rules: GateRules,
  tool: string,
): { decision: GateDecision | 'ask'; reason: string } {
  // The model sees "automation_complete" where the contract says "automation.complete".
  const has = (names: readonly string[]) =>
    names.some((name) => name === tool || name.replaceAll('.', '_') === tool)
  if (has(rules.deny))
    return { decision: 'deny', reason: `"${tool}" is on the session's deny list` }
  if (has(rules.ask)) return { decision: 'ask', reason: `"${tool}" needs an answer from a person` }
  return { decision: 'allow', reason: 'allowed by default' }
}

/** The answer if there is one already; null while the question is parked. Asking again is harmless. */
export function receiveAsk(
  sql: Sql,
  now: number,
  question: Question,
  session: { generation: number; rules: GateRules; turn: { id: string; aborting: boolean } | null },
): Answer | null {
  const known = loadAsk(sql, question.askId)
  if (known) return answerOf(known)
  const decided = session.turn?.aborting
    ? ({ decision: 'deny', reason: 'The turn is being aborted' } as const)
    : session.turn
      ? decideGate(session.rules, question.tool)
      : ({ decision: 'deny', reason: 'No turn is running' } as const)
  const deadlineAt =
    decided.decision === 'ask' ? now + session.rules.askTimeoutSeconds * 1000 : null
  sql.run(
    `insert into asks (id, generation, turn_id, tool, call_id, input, input_hash, state, asked_at, deadline_at)
     values (?, ?, ?, ?, ?, ?, ?, 'open', ?, ?)`,
    question.askId,
    session.generation,
    session.turn?.id ?? null,
    question.tool,
    question.callId,
    JSON.stringify(question.input ?? null),
    question.inputHash,
    now,
    deadlineAt,
  )
  if (decided.decision !== 'ask') {
    return settleAsk(sql, now, question.askId, {
      ...decided,
      decision: decided.decision,
      actor: 'rule',
    })
  }
  appendEvent(sql, now, 'gate.asked', {
    askId: question.askId,
    tool: question.tool,
    callId: question.callId,
    input: question.input ?? null,
    deadlineAt: deadlineAt ?? now,
  })
  armAskDeadline(sql)
  return null
}

/** An answer counts once: whoever comes second learns what was decided. */
function settleAsk(
  sql: Sql,
  now: number,
  askId: string,
  answer: { decision: GateDecision; reason: string; actor: string },
): Answer | null {
  const row = loadAsk(sql, askId)
  if (!row || row.state !== 'open') return row ? answerOf(row) : null
  sql.run(
    `update asks set state = 'answered', decision = ?, reason = ?, actor = ?, answered_at = ? where n = ?`,
    answer.decision,
    answer.reason,
    answer.actor,
    now,
    row.n,
  )
  appendEvent(sql, now, 'gate.decided', {
    askId,
    tool: row.tool,
    callId: row.call_id,
    ...answer,
    waitedMs: now - row.asked_at,
  })
  return { askId, decision: answer.decision, reason: answer.reason }
}

export function answerByPerson(
  sql: Sql,
  now: number,
  askId: string,
  keyId: string,
  answer: AskAnswer,
): Answer {
  const row = loadAsk(sql, askId)
  if (!row) throw new AppError('not_found', `No such question: "${askId}"`)
  if (row.state !== 'open') {
    throw new AppError(
      'wrong_state',
      `Cannot answer "${askId}": it was answered ${row.decision ?? ''} by ${row.actor ?? ''}`,
    )
  }
  const reason =
    answer.reason || (answer.decision === 'allow' ? 'allowed by a person' : 'denied by a person')
  const settled = settleAsk(sql, now, askId, { decision: answer.decision, reason, actor: keyId })
  armAskDeadline(sql)
  return settled as Answer
}

export function denyOverdue(sql: Sql, now: number): Answer[] {
  return denyWhere(sql, now, 'and deadline_at <= ?', [now], 'Nobody answered in time', 'deadline')
}

/** First of all that ends a turn: nothing parked may run afterwards, and a late answer finds it answered. */
export function denyOpenAsks(sql: Sql, now: number, reason: string, actor: string): Answer[] {
  return denyWhere(sql, now, '', [], reason, actor)
}

function denyWhere(
  sql: Sql,
  now: number,
  where: string,
  values: number[],
  reason: string,
  actor: string,
): Answer[] {
  const open = sql.all<AskRow>(
    `select * from asks where state = 'open' ${where} order by n`,
    ...values,
  )
  const answers = open.map((row) =>
    settleAsk(sql, now, row.id, { decision: 'deny', reason, actor }),
  )
  armAskDeadline(sql)
  return answers.filter((answer) => answer !== null)
}

function armAskDeadline(sql: Sql): void {
  const at = sql.all<{ at: number | null }>(
    `select min(deadline_at) as at from asks where state = 'open'`,
  )[0]?.at
  if (at === null || at === undefined) clearDeadline(sql, 'ask')
  else setDeadline(sql, 'ask', at)
}

function loadAsk(sql: Sql, id: string): AskRow | undefined {
  return sql.all<AskRow>('select * from asks where id = ?', id)[0]
}

function answerOf(row: AskRow): Answer | null {
  return row.decision === null
    ? null
    : { askId: row.id, decision: row.decision, reason: row.reason ?? '' }
}

/** The questions that went to a person, newest first. What a rule decided is in the event log. */
export function listAsks(sql: Sql, sessionId: string): Ask[] {
  return sql
    .all<AskRow>('select * from asks where deadline_at is not null order by n desc limit 200')
    .map((row) => toAsk(sessionId, row))
}

export function viewAsk(sql: Sql, sessionId: string, id: string): Ask {
  const row = loadAsk(sql, id)
  if (!row) throw new AppError('not_found', `No such question: "${id}"`)
  return toAsk(sessionId, row)
}

function toAsk(sessionId: string, row: AskRow): Ask {
  return {
    id: row.id as AskId,
    sessionId: sessionId as SessionId,
    tool: row.tool,
    callId: row.call_id,
    input: JSON.parse(row.input) as unknown,
    state: row.state,
    decision: row.decision,
    reason: row.reason,
    actor: row.actor,
    askedAt: row.asked_at,
    deadlineAt: row.deadline_at,
    answeredAt: row.answered_at,
  }
}
