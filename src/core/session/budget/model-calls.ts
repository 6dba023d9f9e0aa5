/**
 * Model calls that have begun: what each can use at most, until it is settled by what the vendor said. The rows of open
 * calls are the reservation that the budget looks at; settling moves a call from there into what was used, once. The
 * room in models/ decides and writes through here; closing, deadlines and the budget itself look here.
 */
import { budgetCostMicros, type StepTokens } from '../../../contract/budget.ts'
import { maxStepTokens } from '../../../contract/reported.ts'
import type { Model, ModelPrice } from '../../../contract/model-table.ts'
import { clearDeadline, setDeadline } from '../../actor/deadlines.ts'
import type { Sql } from '../../ports.ts'
import { appendEvent } from '../log/events.ts'
import { addSpending } from './spending.ts'
import { addModelUsage } from './usage.ts'

/** The deadline of the call that expires first. */
export const callDeadline = 'model.call'
/** Longer than a vendor may fall silent. Whoever passes an answer on says so every minute. */
export const callLeaseMs = 6 * 60_000
/** What a call of a closed session still may take to be told: its sandbox is being stopped. */
const lastWordMs = 10_000
/** Settled calls are kept as long as the rate looks back. */
const keepMs = 2 * 60_000

export type PriceOf = (model: string) => ModelPrice | null
/** Null: nobody knows it, and there is no budget in money then. */
export const pricesOf =
  (models: readonly Model[]): PriceOf =>
  (model) =>
    models.find(({ id }) => id === model)?.price ?? null

export interface Estimate {
  inputTokens: number
  outputTokens: number
  moneyMicros: number
}

export interface NewModelCall extends Estimate {
  id: string
  turnId: string | null
  model: string
}

interface CallRow {
  id: string
  turn_id: string | null
  model: string
  input_tokens: number
  output_tokens: number
  money_micros: number
}

/** How an answer ended. `free`: the vendor refused, or was never reached. */
export type CallEnd =
  | { kind: 'free' }
  | { kind: 'said'; tokens: StepTokens; answerBytes: number }
  /** It broke off: of what the vendor said until then only the input counts. */
  | { kind: 'broken'; tokens: StepTokens | null; reason: string }

export function beginModelCall(sql: Sql, now: number, call: NewModelCall): void {
  const { id, turnId, model, inputTokens, outputTokens, moneyMicros } = call
  // Helper calls are few, and are counted until the next turn.
  sql.run(
    'delete from model_calls where settled_at is not null and turn_id is not null and begun_at < ?',
    now - keepMs,
  )
  sql.run(
    `insert into model_calls (id, turn_id, model, input_tokens, output_tokens, money_micros, begun_at, expires_at)
     values (?, ?, ?, ?, ?, ?, ?, ?)`,
    ...[id, turnId, model, inputTokens, outputTokens, moneyMicros, now, now + callLeaseMs],
  )
  if (turnId !== null)
    sql.run(
      'update turns set counted_tokens = coalesce(counted_tokens, 0) where id = ? and counted_tokens is null',
      turnId,
    )
  armCalls(sql)
}

/** What open calls can still use together. */
export function reservedByModelCalls(sql: Sql): {
  calls: number
  tokens: number
  moneyMicros: number
} {
  const row = sql.all<{ calls: number; tokens: number | null; moneyMicros: number | null }>(
    `select count(*) as calls, sum(input_tokens + output_tokens) as tokens, sum(money_micros) as moneyMicros
     from model_calls where settled_at is null`,
  )[0]
  return {
    calls: row?.calls ?? 0,
    tokens: row?.tokens ?? 0,
    moneyMicros: row?.moneyMicros ?? 0,
  }
}

/** When the oldest of the last `count` calls began, if all of them began after this time. */
export const begunSince = (sql: Sql, since: number, count: number): number | null =>
  sql.all<{ at: number }>(
    'select begun_at as at from model_calls where begun_at > ? order by begun_at desc limit 1 offset ?',
    since,
    count - 1,
  )[0]?.at ?? null

/** Helper calls since the last turn began. */
export function countHelperModelCalls(sql: Sql): number {
  return (
    sql.all<{ c: number }>(
      `select count(*) as c from model_calls where turn_id is null
       and begun_at >= (select coalesce(max(started_at), 0) from turns)`,
    )[0]?.c ?? 0
  )
}

/** Its answer still comes. */
export function extendModelCall(sql: Sql, now: number, id: string): void {
  sql.run(
    'update model_calls set expires_at = ? where id = ? and settled_at is null',
    now + callLeaseMs,
    id,
  )
  armCalls(sql)
}

/** Once: a call that is settled, or that nobody knows, changes nothing. */
export function settleModelCall(
  sql: Sql,
  now: number,
  id: string,
  end: CallEnd,
  priceOf: PriceOf,
): void {
  const row = sql.all<CallRow>(
    'select * from model_calls where id = ? and settled_at is null',
    id,
  )[0]
  if (!row) return
  const { tokens, moneyMicros, estimated } = amountsOf(row, end, priceOf(row.model))
  sql.run('update model_calls set settled_at = ? where id = ?', now, id)
  armCalls(sql)
  if (end.kind !== 'free') count(sql, now, row, { tokens, moneyMicros, estimated })
  if (row.turn_id !== null) compareModelCalls(sql, now, row.turn_id)
}

interface Counted {
  tokens: StepTokens
  moneyMicros: number
  /** Null: the vendor has said it. Otherwise why a bound counts in its place. */
  estimated: string | null
}

const none: StepTokens = { input: 0, output: 0, reasoning: 0, cacheRead: 0, cacheWrite: 0 }

function amountsOf(row: CallRow, end: CallEnd, price: ModelPrice | null): Counted {
  if (end.kind === 'free') return { tokens: none, moneyMicros: 0, estimated: null }
  const reserved = {
    tokens: { ...none, input: row.input_tokens, output: row.output_tokens },
    moneyMicros: row.money_micros,
  }
  const cost = (tokens: StepTokens) => (price ? budgetCostMicros(price, tokens) : 0)
  const hasInput = end.tokens !== null && isPlausible(inputOf(end.tokens), row.input_tokens)
  if (end.kind === 'broken') {
    const tokens = { ...none, ...end.tokens, output: row.output_tokens, reasoning: 0 }
    if (!hasInput) return { ...reserved, estimated: end.reason }
    return { tokens, moneyMicros: cost(tokens), estimated: end.reason }
  }
  const output = outputOf(end.tokens)
  const isSilent = output === 0 && end.answerBytes < emptyAnswerBytes
  if (!hasInput || !(isSilent || isPlausible(output, row.output_tokens)))
    return { ...reserved, estimated: 'The vendor says what cannot be true' }
  return { tokens: end.tokens, moneyMicros: cost(end.tokens), estimated: null }
}

const inputOf = ({ input, cacheRead, cacheWrite }: StepTokens) => input + cacheRead + cacheWrite
const outputOf = ({ output, reasoning }: StepTokens) => output + reasoning
const totalOf = (tokens: StepTokens) => inputOf(tokens) + outputOf(tokens)

/** No longer answer has no words. */
const emptyAnswerBytes = 4096

/** The bound is rough where a vendor adds words of its own, so twice as much is still believed. */
const isPlausible = (said: number, bound: number): boolean =>
  Number.isSafeInteger(said) && said > 0 && said <= Math.min(maxStepTokens, 2 * bound + 1000)

function count(sql: Sql, now: number, row: CallRow, counted: Counted): void {
  const { tokens, moneyMicros, estimated } = counted
  const total = totalOf(tokens)
  addModelUsage(sql, now, {
    moneyMicros,
    model: row.model,
    inputTokens: inputOf(tokens),
    outputTokens: outputOf(tokens),
  })
  addSpending(sql, now, { tokens: total, moneyMicros })
  if (estimated !== null) {
    const { id: callId, turn_id: turnId, model } = row
    const data = { callId, turnId, model, tokens: total, reason: estimated }
    appendEvent(sql, now, 'budget.estimated', data)
  } else if (row.turn_id !== null)
    sql.run('update turns set counted_tokens = counted_tokens + ? where id = ?', total, row.turn_id)
}

/** Whoever passed them on is gone. */
export function settleExpiredModelCalls(sql: Sql, now: number, priceOf: PriceOf): void {
  settleWhere(sql, now, now, 'Nothing more was heard of the answer', priceOf)
}

/** The session is being erased: nobody will tell. */
export function settleAllModelCalls(sql: Sql, now: number, priceOf: PriceOf): void {
  settleWhere(sql, now, Number.MAX_SAFE_INTEGER, 'The session was deleted', priceOf)
}

function settleWhere(
  sql: Sql,
  now: number,
  expiredAt: number,
  reason: string,
  priceOf: PriceOf,
): void {
  const rows = sql.all<CallRow>(
    'select * from model_calls where settled_at is null and expires_at <= ? order by id',
    expiredAt,
  )
  for (const { id } of rows)
    settleModelCall(sql, now, id, { kind: 'broken', tokens: null, reason }, priceOf)
  armCalls(sql)
}

/** The session is closed: whatever its calls used must be known before its slice is returned. */
export function awaitLastModelCalls(sql: Sql, now: number): void {
  sql.run(
    'update model_calls set expires_at = min(expires_at, ?) where settled_at is null',
    now + lastWordMs,
  )
  armCalls(sql)
}

/** When the next open call is given up; null: none is open. */
export const nextExpiry = (sql: Sql): number | null =>
  sql.all<{ at: number | null }>(
    'select min(expires_at) as at from model_calls where settled_at is null',
  )[0]?.at ?? null

function armCalls(sql: Sql): void {
  const at = nextExpiry(sql)
  if (at === null) clearDeadline(sql, callDeadline)
  else setDeadline(sql, callDeadline, at)
}

/** So much may differ: vendors and OpenCode do not round alike. */
const toleratedTokens = 1000
const toleratedShare = 0.1

/** What the sandbox says of a turn whose calls were counted here is only compared, never counted. */
export function isCountedByModelCalls(sql: Sql, turnId: string): boolean {
  return (
    sql.all('select 1 from turns where id = ? and counted_tokens is not null', turnId).length > 0
  )
}

export function addReportedToModelCalls(sql: Sql, turnId: string, tokens: number): void {
  sql.run('update turns set reported_tokens = reported_tokens + ? where id = ?', tokens, turnId)
}

/**
 * Once both sides have told all of it: the turn is over and none of its calls is open. Turns that did not complete are
 * left out, since OpenCode may have died before it could report.
 */
export function compareModelCalls(sql: Sql, now: number, turnId: string): void {
  const row = sql.all<{ counted: number; reported: number }>(
    `select counted_tokens as counted, reported_tokens as reported from turns
     where id = ?1 and state = 'completed' and counted_tokens is not null
       and not exists (select 1 from model_calls where turn_id = ?1 and settled_at is null)`,
    turnId,
  )[0]
  if (!row) return
  const { counted, reported } = row
  const tolerated = Math.max(toleratedTokens, toleratedShare * Math.max(counted, reported))
  if (Math.abs(counted - reported) > tolerated)
    appendEvent(sql, now, 'budget.mismatch', { turnId, counted, reported })
}
