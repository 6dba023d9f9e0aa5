import {
  type Budget,
  type BudgetCorrection,
  correctedBudget,
  measures,
  type SharedBudgetCorrect,
  type SharedBudgetView,
  shownBudget,
} from '../../contract/budget.ts'
import { canonicalJson } from '../../contract/canonical.ts'
import { AppError } from '../../contract/error.ts'
import type { Sql } from '../ports.ts'
import { hideSecretLike } from '../redaction/redaction.ts'
import { addAction } from './record/actions.ts'
import type { RoomOf } from '../actor/room.ts'
import type { BudgetsApi } from './record/api.ts'
import type { OrganisationKernel } from './record/kernel.ts'
import {
  loadSliceBudgetLimits,
  budgetSliceRefusal,
  loadSliceBudgetReserved,
  returnSlice,
  saveSliceBudgetUsed,
  takeSlice,
  loadSliceBudgetUsed,
} from './budget-slices.ts'

/**
 * The room of the budgets that sessions share: the organisation's and those of its projects. It promises that what
 * sessions hold and have used never exceeds a budget when a slice is given. Sessions take and return slices; admins set
 * budgets, and correct what was counted with a reason that stays on record.
 */
export function createBudgets(kernel: OrganisationKernel): RoomOf<BudgetsApi> {
  const api: BudgetsApi = {
    take: async (claim) =>
      kernel.commit((sql, now) => takeSlice(sql, plausibleClaim(sql, now, claim.sessionId, claim))),
    giveBack: async (sessionId, number, spent) =>
      kernel.commit((sql, now) => {
        const told = plausibleClaim(sql, now, sessionId, { spent })
        returnSlice(sql, sessionId, number, told.spent)
      }),
    view: async (project) => kernel.read((sql) => viewSharedBudget(sql, project)),
    async set(project, limits, actor) {
      kernel.commit((sql) => saveSharedBudget(sql, project ?? '', limits, actor))
      return api.view(project)
    },
    async correct(sent, actor, key) {
      const kept = { ...sent, reason: hideSecretLike(sent.reason) }
      const correction = kernel.commit((sql, now) =>
        correctSharedBudget(sql, now, kept, { actor, key }),
      )
      return { ...(await api.view(sent.project ?? null)), correction }
    },
  }
  return { api }
}

function saveSharedBudget(sql: Sql, project: string, limits: Budget, actor: string): void {
  sql.run(
    `insert into budgets values (?, ?, ?)
     on conflict (project) do update set limits = excluded.limits, set_by = excluded.set_by`,
    project,
    JSON.stringify(limits),
    actor,
  )
}

function viewSharedBudget(sql: Sql, project: string | null): SharedBudgetView {
  const scope = project ?? ''
  const refusal = budgetSliceRefusal(sql, scope, '')
  return {
    project,
    limits: loadSliceBudgetLimits(sql, scope),
    used: shownBudget(loadSliceBudgetUsed(sql, scope)),
    reserved: shownBudget(loadSliceBudgetReserved(sql, scope, '')),
    spent: refusal === null ? [] : [refusal],
  }
}

/** What was counted for the organisation, or for one project, is wrong. The same key corrects once. */
function correctSharedBudget(
  sql: Sql,
  now: number,
  sent: SharedBudgetCorrect,
  by: { actor: string; key: string | null },
): BudgetCorrection {
  const body = canonicalJson(sent)
  const known = by.key === null ? null : findCorrection(sql, by.key, body)
  if (known) return known
  const scope = sent.project ?? ''
  const before = loadSliceBudgetUsed(sql, scope)
  const after = correctedBudget(before, sent.used)
  saveSliceBudgetUsed(sql, scope, after)
  const { actor, key } = by
  const correction = {
    ...{ at: now, actor, reason: sent.reason },
    ...{ before: shownBudget(before), after: shownBudget(after) },
  }
  sql.run(
    'insert into budget_corrections (key, body, project, correction) values (?, ?, ?, ?)',
    key,
    body,
    scope,
    JSON.stringify(correction),
  )
  addAction(sql, now, { action: 'budget.corrected', actor, reason: wordsOf(scope, correction) })
  return correction
}

function findCorrection(sql: Sql, key: string, body: string): BudgetCorrection | null {
  const [row] = sql.all<{ body: string; correction: string }>(
    'select body, correction from budget_corrections where key = ?',
    key,
  )
  if (row && row.body !== body)
    throw new AppError('key_conflict', `Idempotency-Key "${key}" was used with another body`)
  return row ? (JSON.parse(row.correction) as BudgetCorrection) : null
}

/** Numbers first: a long reason is cut at its end. */
function wordsOf(scope: string, { before, after, reason }: BudgetCorrection): string {
  const names = Object.keys(after) as (keyof BudgetCorrection['after'])[]
  const changes = names
    .filter((name) => before[name] !== after[name])
    .map((name) => `${name} ${before[name]} to ${after[name]}`)
  const whose = scope === '' ? 'organisation' : `project ${scope}`
  return `${whose}: ${changes.join(', ') || 'no change'}: ${reason}`
}

/** What a session says that it has used of its slice. Nothing real comes near. */
const maxClaim = 1_000_000_000_000

/** A claim that cannot be true counts for nothing: it would spend the budget of everybody for ever. */
function plausibleClaim<T extends { spent: Record<(typeof measures)[number], number> }>(
  sql: Sql,
  now: number,
  sessionId: string,
  claim: T,
): T {
  const spent = { ...claim.spent }
  const wrong = measures.filter((one) => !(Number.isFinite(spent[one]) && spent[one] <= maxClaim))
  if (wrong.length === 0) return claim
  for (const measure of wrong) spent[measure] = 0
  addAction(sql, now, {
    action: 'budget.implausible',
    actor: 'budget',
    reason: `Session ${sessionId} says that it used ${wrong.map((one) => `${claim.spent[one]} ${one}`).join(', ')}: not counted`,
  })
  return { ...claim, spent }
}
