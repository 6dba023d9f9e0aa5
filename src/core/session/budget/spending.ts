import {
  type Amounts,
  type Budget,
  type BudgetView,
  budgetLimit,
  type Measure,
  measureNames,
  measures,
  noAmounts,
  shownBudget,
} from '../../../contract/budget.ts'
import { clearDeadline, setDeadline } from '../../actor/deadlines.ts'
import type { Sql } from '../../ports.ts'
import { appendEvent } from '../log/events.ts'
import { sliceHasHeadroom, loadSlice, sliceOf, type SliceRow } from './slice.ts'
import { open, openRun, recordOnRun } from '../runs/rows.ts'
import { endRunWait, addRunWait } from '../runs/waits.ts'

const warnAt = 0.8
/** The name under which a run waits for it. */
const budgetWait = 'budget'

interface BudgetRow {
  limits: string
  wall_ms: number
  tool_calls: number
  tokens: number
  money_micros: number
  running_since: number | null
  warned: string
  shared_reason: string
  blocked: number
}

function load(sql: Sql): BudgetRow {
  const row = sql.all<BudgetRow>('select * from budget')[0]
  if (!row) throw new Error('The row of the budget is gone')
  return row
}

const limitsOf = (row: BudgetRow) => JSON.parse(row.limits) as Budget

function amountsOf(row: BudgetRow, now: number): Amounts {
  const running = row.running_since === null ? 0 : Math.max(0, now - row.running_since)
  return {
    wallMs: row.wall_ms + running,
    toolCalls: row.tool_calls,
    tokens: row.tokens,
    moneyMicros: row.money_micros,
  }
}

export const usedAmounts = (sql: Sql, now: number): Amounts => amountsOf(load(sql), now)

/** Why nothing more may run. Empty while something may. */
export const spentReasons = (sql: Sql, now: number): string[] => reasonsOf(load(sql), now)

function reasonsOf(row: BudgetRow, now: number): string[] {
  const used = amountsOf(row, now)
  const limits = limitsOf(row)
  const own = measures
    .filter((measure) => used[measure] >= (budgetLimit(limits, measure) ?? Infinity))
    .map(spentReason)
  return row.shared_reason === '' ? own : [...own, row.shared_reason]
}

/** What may still be spent. */
export interface Headroom {
  isEnough: boolean
  /** Why nothing may run. */
  reasons: string[]
}

/** Of the session's slice. In one look, since every tool comes by here. */
export function spendingHeadroom(sql: Sql, now: number): Headroom {
  const row = sql.all<BudgetRow & SliceRow>('select * from budget, slice')[0]
  if (!row) throw new Error('The row of the budget is gone')
  return {
    isEnough: sliceHasHeadroom(sliceOf(row), amountsOf(row, now)),
    reasons: reasonsOf(row, now),
  }
}

/** What a model call uses. Tools are counted where they are asked for. */
const modelMeasures = ['wallMs', 'tokens', 'moneyMicros'] as const satisfies Measure[]

/** Beside what open calls may still use: a call may begin while there is anything left, so the last one may pass the limit. */
export interface ModelRoom {
  /** Why none may begin, until somebody raises it. */
  spent: string | null
  /** Open calls have reserved the rest of the session's own budget. */
  isHeld: boolean
  /** Of the session's slice. */
  isInSlice: boolean
}

export function modelSpendingRoom(
  sql: Sql,
  now: number,
  reserved: Pick<Amounts, 'tokens' | 'moneyMicros'>,
): ModelRoom {
  const row = sql.all<BudgetRow & SliceRow>('select * from budget, slice')[0]
  if (!row) throw new Error('The row of the budget is gone')
  const limits = limitsOf(row)
  const used = amountsOf(row, now)
  const held = {
    ...used,
    tokens: used.tokens + reserved.tokens,
    moneyMicros: used.moneyMicros + reserved.moneyMicros,
  }
  const reaches = (amounts: Amounts) =>
    modelMeasures.find((one) => amounts[one] >= (budgetLimit(limits, one) ?? Infinity))
  const spent = reaches(used)
  return {
    spent: spent === undefined ? null : spentReason(spent),
    isHeld: reaches(held) !== undefined,
    isInSlice: sliceHasHeadroom(sliceOf(row), held, modelMeasures),
  }
}

/** Why the organisation has refused the last slice; empty: it has not. */
export const sharedReason = (sql: Sql): string => load(sql).shared_reason

const spentReason = (measure: Measure) =>
  `The session's budget of ${measureNames[measure].name} is spent`

/** Runs and queued turns wait until it is raised. */
export const isBlocked = (sql: Sql): boolean => load(sql).blocked === 1

export function viewSpending(sql: Sql, now: number): BudgetView {
  const row = load(sql)
  return {
    limits: limitsOf(row),
    used: shownBudget(amountsOf(row, now)),
    spent: reasonsOf(row, now),
  }
}

/** Raised or lowered. Whatever was told of the old one is told again of the new one. */
export function saveSpendingLimits(sql: Sql, now: number, limits: Budget, actor: string): void {
  sql.run(`update budget set limits = ?, warned = '[]'`, JSON.stringify(limits))
  const run = openRun(sql)
  if (run) recordOnRun(sql, now, run.id, 'budget.raised', { limits, actor })
  followSpending(sql, now)
}

export function setSharedSpendingReason(sql: Sql, now: number, reason: string): void {
  sql.run('update budget set shared_reason = ?', reason)
  followSpending(sql, now)
}

/** In place of what was counted. The clock of a running turn begins anew. */
export function setSpendingUsed(sql: Sql, now: number, used: Amounts): void {
  sql.run(
    `update budget set wall_ms = ?, tool_calls = ?, tokens = ?, money_micros = ?, warned = '[]',
       running_since = case when running_since is null then null else ? end`,
    used.wallMs,
    used.toolCalls,
    used.tokens,
    used.moneyMicros,
    now,
  )
}

export function addSpending(sql: Sql, now: number, spent: Partial<Amounts>): void {
  const { toolCalls, tokens, moneyMicros } = { ...noAmounts, ...spent }
  const row = sql.all<Pick<BudgetRow, 'limits' | 'blocked'>>(
    `update budget set tool_calls = tool_calls + ?, tokens = tokens + ?, money_micros = money_micros + ?
     returning limits, blocked`,
    toolCalls,
    tokens,
    moneyMicros,
  )[0]
  // Every tool comes by here: mostly there is nothing that it could reach.
  if (row?.limits !== '{}' || row.blocked === 1) followSpending(sql, now)
}

/** Time counts while a turn runs that waits for no budget. */
export function startSpendingClock(sql: Sql, now: number): void {
  sql.run(
    `update budget set running_since = coalesce(running_since, ?)
     where blocked = 0 and exists (select 1 from turns where state = 'running')`,
    now,
  )
  armClock(sql, now)
}

export function stopSpendingClock(sql: Sql, now: number): void {
  holdClock(sql, now)
  followSpending(sql, now)
}

function holdClock(sql: Sql, now: number): void {
  sql.run(
    `update budget set wall_ms = wall_ms + max(0, ? - running_since), running_since = null
     where running_since is not null`,
    now,
  )
  clearDeadline(sql, 'budget')
}

/** Tells of 80 %, makes every open run wait at 100 %, and lets them go on once there is room again. */
export function followSpending(sql: Sql, now: number): void {
  const row = load(sql)
  warn(sql, now, row)
  const [reason] = reasonsOf(row, now)
  if (reason !== undefined) block(sql, now, row, reason)
  else if (row.blocked === 1) release(sql, now)
  else armClock(sql, now)
}

function warn(sql: Sql, now: number, row: BudgetRow): void {
  const limits = limitsOf(row)
  const used = amountsOf(row, now)
  const due = measures.flatMap((measure) => {
    const limit = budgetLimit(limits, measure)
    const { name, unit } = measureNames[measure]
    if (limit === null || used[measure] < limit * warnAt) return []
    return [{ measure: name, used: used[measure] / unit, limit: limit / unit }]
  })
  tellSpendingWarnings(sql, now, due)
}

/** Each measure once, however often its 80 % are seen. */
export function tellSpendingWarnings(
  sql: Sql,
  now: number,
  warnings: readonly { measure: string; used: number; limit: number }[],
): void {
  if (warnings.length === 0) return
  const warned = JSON.parse(load(sql).warned) as string[]
  const fresh = warnings.filter(({ measure }) => !warned.includes(measure))
  if (fresh.length === 0) return
  const told = [...warned, ...fresh.map(({ measure }) => measure)]
  sql.run('update budget set warned = ?', JSON.stringify(told))
  const run = openRun(sql)
  for (const data of fresh) {
    appendEvent(sql, now, 'budget.warned', data)
    if (run) recordOnRun(sql, now, run.id, 'budget.warned', data)
  }
}

/** The time that a person takes to raise it is not used up: the clock stands meanwhile. */
function block(sql: Sql, now: number, row: BudgetRow, reason: string): void {
  if (row.blocked === 0) {
    holdClock(sql, now)
    sql.run('update budget set blocked = 1')
    appendEvent(sql, now, 'budget.spent', { reason })
  }
  const runs = runsNotYet(sql, now, 'waiting')
  for (const { id } of runs) {
    addRunWait(sql, now, id, budgetWait, budgetWait)
    recordOnRun(sql, now, id, 'budget.spent', { reason })
  }
}

function release(sql: Sql, now: number): void {
  sql.run('update budget set blocked = 0')
  letRunsGoOn(sql, now)
  startSpendingClock(sql, now)
}

function letRunsGoOn(sql: Sql, now: number): void {
  for (const { id } of runsNotYet(sql, now, 'going on'))
    endRunWait(sql, now, id, budgetWait, 'There is budget again')
}

/** So many runs change in one commit; the others follow by the alarm. */
const runsAtOnce = 50

/** Open runs that have not heard yet whether there is budget; the newest first, since their turns run now. */
function runsNotYet(sql: Sql, now: number, state: 'waiting' | 'going on'): { id: string }[] {
  const isWaiting = `instr(waits_for, '"what":"${budgetWait}"') > 0`
  const found = sql.all<{ id: string }>(
    `select id from runs where ${open} and ${state === 'waiting' ? 'not ' : ''}${isWaiting}
     order by n desc limit ?`,
    runsAtOnce + 1,
  )
  if (found.length > runsAtOnce) setDeadline(sql, 'budget.runs', now)
  return found.slice(0, runsAtOnce)
}

/** The next of the runs that were too many for one commit. */
export function followSpendingOfRuns(sql: Sql, now: number): void {
  clearDeadline(sql, 'budget.runs')
  const row = load(sql)
  const [reason] = reasonsOf(row, now)
  if (row.blocked === 1 && reason !== undefined) block(sql, now, row, reason)
  else if (row.blocked === 0) letRunsGoOn(sql, now)
}

/** The moment at which the running turn's time alone reaches 80 % or all of it, or the end of what the organisation gave. */
function armClock(sql: Sql, now: number): void {
  const { running_since: since, wall_ms: before, limits } = load(sql)
  const limit = budgetLimit(JSON.parse(limits) as Budget, 'wallMs')
  const slice = loadSlice(sql)
  const amounts = limit === null ? [] : [limit * warnAt, limit]
  if (slice.number > 0) amounts.push(slice.since.wallMs + slice.granted.wallMs)
  const moments = since === null ? [] : amounts.map((ms) => Math.ceil(since + ms - before))
  const next = moments.filter((at) => at > now).toSorted((a, b) => a - b)[0]
  if (next === undefined) clearDeadline(sql, 'budget')
  else setDeadline(sql, 'budget', next)
}
