import {
  type BudgetCorrect,
  type BudgetCorrection,
  correctedBudget,
  measures,
  shownBudget,
} from '../../../contract/budget.ts'
import type { Sql } from '../../ports.ts'
import { appendEvent } from '../log/events.ts'
import { loadSlice, saveSlice } from './slice.ts'
import { followSpending, setSpendingUsed, usedAmounts } from './spending.ts'
import { openRun, recordOnRun } from '../runs/rows.ts'

/** What was counted is wrong, and a person says what is right. Runs that waited for it go on. */
export function correctBudget(
  sql: Sql,
  now: number,
  { used, reason }: BudgetCorrect,
  actor: string,
): BudgetCorrection {
  const before = usedAmounts(sql, now)
  const after = correctedBudget(before, used)
  setSpendingUsed(sql, now, after)
  const slice = loadSlice(sql)
  // What the organisation has been told already stays its own affair: nothing of the slice is given back twice.
  const since = { ...slice.since }
  for (const measure of measures) since[measure] = Math.min(since[measure], after[measure])
  saveSlice(sql, { ...slice, since })
  const correction = {
    at: now,
    actor,
    reason,
    before: shownBudget(before),
    after: shownBudget(after),
  }
  appendEvent(sql, now, 'budget.corrected', correction)
  const run = openRun(sql)
  if (run) recordOnRun(sql, now, run.id, 'budget.corrected', correction)
  followSpending(sql, now)
  return correction
}
