import {
  type Amounts,
  type Budget,
  budgetLimit,
  type Measure,
  measureNames,
  measures,
  noAmounts,
} from '../../contract/budget.ts'
import type { Sql } from '../ports.ts'
import type { BudgetAnswer, BudgetClaim } from './record/api.ts'

/**
 * The slices of the shared budgets: the part that each session holds, and what has been used of all. A session asks for
 * its next slice with what it used of the one before, so no more than one slice per session can be stranded. Repeatable
 * by the slice's number: a message that is lost, or comes twice, counts once. Every function runs inside a commit or a
 * read of the room in budgets.ts. Scope '' is the organisation itself.
 */

/** So much is given at a time. */
const slice: Amounts = { wallMs: 300_000, toolCalls: 20, tokens: 100_000, moneyMicros: 250_000 }
const warnAt = 0.8
/** No session has more open at a time. */
const maxReserved = 1_000_000_000

interface SliceRow {
  session_id: string
  project: string
  number: number
  granted: string
  settled: string
  carried: string
}

/**
 * The next slice of a session. What it has used of the one before is settled first, also where nothing more is given.
 * Repeatable: the same number gives the same slice.
 */
export function takeSlice(sql: Sql, claim: BudgetClaim): BudgetAnswer {
  const before = loadSlice(sql, claim.sessionId)
  if (before && before.number >= claim.number) {
    settleEarlier(sql, before, claim.number - 1, claim.spent)
    return { granted: amountsOf(before.granted), warnings: [] }
  }
  if (before) settle(sql, before, claim.spent)
  const books = ['', claim.project].map((scope) => booksOf(sql, scope, claim.sessionId))
  const refusal = books.map(refusalIn).find(Boolean)
  if (refusal) return { granted: null, reason: refusal }
  const given = { ...slice }
  for (const measure of ['tokens', 'moneyMicros'] as const)
    given[measure] = Math.max(slice[measure], Math.min(claim.reserved?.[measure] ?? 0, maxReserved))
  for (const { left } of books)
    for (const measure of measures)
      given[measure] = Math.min(given[measure], left[measure] ?? Infinity)
  insertSlice(sql, claim, given)
  return { granted: given, warnings: books.flatMap(warningsIn) }
}

function insertSlice(sql: Sql, claim: BudgetClaim, given: Amounts): void {
  sql.run(
    `insert or replace into slices (session_id, project, number, granted, settled, carried)
     values (?, ?, ?, ?, ?, ?)`,
    claim.sessionId,
    claim.project,
    claim.number,
    JSON.stringify(given),
    JSON.stringify(noAmounts),
    JSON.stringify(claim.spent),
  )
}

/** The session needs no more: what it did not use is free again, also of a slice that it never heard of. */
export function returnSlice(sql: Sql, sessionId: string, number: number, spent: Amounts): void {
  const before = loadSlice(sql, sessionId)
  if (!before || before.number < number) return
  if (before.number === number) settle(sql, before, spent)
  else settleEarlier(sql, before, number, spent)
  sql.run('delete from slices where session_id = ?', sessionId)
}

/** `spent` is of this slice as a whole, so telling it again adds nothing. */
function settle(sql: Sql, row: SliceRow, spent: Amounts): void {
  addUsed(sql, row.project, spent, amountsOf(row.settled))
  sql.run(
    'update slices set settled = ? where session_id = ?',
    JSON.stringify(highest(spent, amountsOf(row.settled))),
    row.session_id,
  )
}

/** The answer with the next slice was lost on its way: what was used of the one before since then counts as well. */
function settleEarlier(sql: Sql, row: SliceRow, number: number, spent: Amounts): void {
  if (row.number !== number + 1) return
  const carried = amountsOf(row.carried)
  addUsed(sql, row.project, spent, carried)
  sql.run(
    'update slices set carried = ? where session_id = ?',
    JSON.stringify(highest(spent, carried)),
    row.session_id,
  )
}

function addUsed(sql: Sql, project: string, spent: Amounts, settled: Amounts): void {
  const more = measures.map((measure) => Math.max(0, spent[measure] - settled[measure]))
  for (const scope of new Set(['', project]))
    sql.run(
      `insert into budget_used (project, ${measures.join(', ')}) values (?, ?, ?, ?, ?)
       on conflict (project) do update set ${measures.map((one) => `${one} = ${one} + excluded.${one}`).join(', ')}`,
      scope,
      ...more,
    )
}

const amountsOf = (text: string) => JSON.parse(text) as Amounts

const highest = (one: Amounts, other: Amounts): Amounts =>
  Object.fromEntries(
    measures.map((measure) => [measure, Math.max(one[measure], other[measure])]),
  ) as Amounts

/** What a session may still get of one scope. Of what has no limit nothing is counted: that would read every slice. */
interface Books {
  scope: string
  limits: Budget
  used: Amounts
  /** Not limited: undefined. */
  left: Partial<Amounts>
}

function booksOf(sql: Sql, scope: string, sessionId: string): Books {
  const limits = loadSliceBudgetLimits(sql, scope)
  const limited = measures.filter((measure) => budgetLimit(limits, measure) !== null)
  if (limited.length === 0) return { scope, limits, used: noAmounts, left: {} }
  const used = loadSliceBudgetUsed(sql, scope)
  const reserved = loadSliceBudgetReserved(sql, scope, sessionId)
  const leftOf = (measure: Measure) =>
    (budgetLimit(limits, measure) ?? 0) - used[measure] - reserved[measure]
  const left = Object.fromEntries(limited.map((measure) => [measure, leftOf(measure)]))
  return { scope, limits, used, left }
}

export const budgetSliceRefusal = (sql: Sql, scope: string, sessionId: string): string | null =>
  refusalIn(booksOf(sql, scope, sessionId))

function refusalIn({ scope, left }: Books): string | null {
  const measure = measures.find((one) => (left[one] ?? 1) <= 0)
  if (!measure) return null
  const whose = scope === '' ? "The organisation's" : `Project "${scope}"'s`
  return `${whose} budget of ${measureNames[measure].name} is spent`
}

function warningsIn({ scope, limits, used }: Books): BudgetWarning[] {
  return measures.flatMap((measure) => {
    const limit = budgetLimit(limits, measure)
    const { name, unit } = measureNames[measure]
    if (limit === null || used[measure] < limit * warnAt) return []
    const owner = scope === '' ? 'organisation' : `project ${scope}`
    return [{ measure: `${name} (${owner})`, used: used[measure] / unit, limit: limit / unit }]
  })
}

interface BudgetWarning {
  measure: string
  used: number
  limit: number
}

export function saveSliceBudgetUsed(sql: Sql, scope: string, used: Amounts): void {
  sql.run('insert or ignore into budget_used (project) values (?)', scope)
  for (const measure of measures)
    sql.run(`update budget_used set ${measure} = ? where project = ?`, used[measure], scope)
}

export function loadSliceBudgetLimits(sql: Sql, scope: string): Budget {
  const row = sql.all<{ limits: string }>('select limits from budgets where project = ?', scope)[0]
  return row ? (JSON.parse(row.limits) as Budget) : {}
}

export function loadSliceBudgetUsed(sql: Sql, scope: string): Amounts {
  const row = sql.all<Amounts>(
    'select wallMs, toolCalls, tokens, moneyMicros from budget_used where project = ?',
    scope,
  )[0]
  return row ?? noAmounts
}

/** What other sessions hold and have not used. */
export function loadSliceBudgetReserved(sql: Sql, scope: string, sessionId: string): Amounts {
  const rows = sql.all<SliceRow>(
    `select * from slices where (?1 = '' or project = ?1) and session_id <> ?2`,
    scope,
    sessionId,
  )
  const sum = { ...noAmounts }
  for (const row of rows) {
    const given = amountsOf(row.granted)
    const settled = amountsOf(row.settled)
    for (const measure of measures) sum[measure] += Math.max(0, given[measure] - settled[measure])
  }
  return sum
}

const loadSlice = (sql: Sql, sessionId: string): SliceRow | undefined =>
  sql.all<SliceRow>('select * from slices where session_id = ?', sessionId)[0]
