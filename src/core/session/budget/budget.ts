import type { RoomOf } from '../../actor/room.ts'
import type {
  Budget,
  BudgetCorrect,
  BudgetCorrection,
  BudgetView,
  CorrectedBudget,
} from '../../../contract/budget.ts'
import { AppError } from '../../../contract/error.ts'
import { parseModel } from '../../../contract/models.ts'
import { deadlineAttempts, clearDeadline, setDeadline } from '../../actor/deadlines.ts'
import type { BudgetAnswer, BudgetClaim } from '../../organisation/record/api.ts'
import type { Sql } from '../../ports.ts'
import {
  followSpending,
  followSpendingOfRuns,
  type Headroom,
  spendingHeadroom,
  modelSpendingRoom,
  saveSpendingLimits,
  setSharedSpendingReason,
  sharedReason,
  spentReasons,
  tellSpendingWarnings,
  usedAmounts,
  viewSpending,
} from './spending.ts'
import { correctBudget } from './corrections.ts'
import type { Caller } from '../record/caller.ts'
import { modelsOfSubagents, pinnedAgents } from '../pins/agents.ts'
import { guardAttempt, guardSession, guardEntry, guardOpenSession } from '../record/guards.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { messageOf, outsideOrganisation } from '../record/outside.ts'
import { onceByKey } from '../../actor/keys.ts'
import { difference, loadSlice, saveSlice, sum } from './slice.ts'
import {
  awaitLastModelCalls,
  type Estimate,
  nextExpiry,
  pricesOf,
  reservedByModelCalls,
  settleAllModelCalls,
} from './model-calls.ts'

/** So often while something waits for the answer, and ever more rarely while nothing does. */
const askAgainMs = 3000
const askAgainAtMostMs = 600_000
/** Nothing that an agent asks may hang: an organisation that does not answer gives nothing. */
const patienceMs = 10_000
/** A slice that is too small for all calls that wait is asked for again; then they have to wait for one another. */
const slicesAtMost = 3

export interface BudgetApi {
  view(caller: Caller): Promise<BudgetView>
  /** Replaces it. What waits for a budget is decided anew. */
  set(caller: Caller, limits: Budget): Promise<BudgetView>
  /** What was counted is put right, with a reason on record; the same key corrects once. */
  correct(
    caller: Caller,
    sent: BudgetCorrect,
    idempotencyKey: string | null,
  ): Promise<CorrectedBudget>
}

/**
 * The session's own budget, and its slice of the budgets that it shares with others. Whatever costs is committed through
 * `spend`: turns, the gate and operations call it. What finds no budget waits, and is looked at again once there is some.
 */
export class SessionBudget implements RoomOf<BudgetApi> {
  readonly api: BudgetApi = this
  readonly #kernel: SessionKernel
  /** There may be budget again: what waits for it is looked at anew. */
  readonly #onHeadroom: () => void
  #asking: Promise<void> | null = null
  #giveUp: () => void = () => {}
  /** Model calls that wait for a slice: it must be large enough for all of them. */
  readonly #waitingCalls = new Set<Estimate>()

  constructor(kernel: SessionKernel, onHeadroom: () => void) {
    this.#kernel = kernel
    this.#onHeadroom = onHeadroom
  }

  async view(caller: Caller): Promise<BudgetView> {
    guardSession(this.#kernel, caller)
    return viewSpending(this.#kernel.ports.sql, this.#kernel.ports.now())
  }

  async set(caller: Caller, limits: Budget): Promise<BudgetView> {
    const session = guardSession(this.#kernel, caller)
    guardOpenSession(session)
    guardAttempt(this.#kernel, caller)
    const others = modelsOfSubagents(pinnedAgents(this.#kernel.ports.sql))
    for (const id of [session.model, ...others]) budgetMustHavePrice(this.#kernel, id, limits)
    this.#kernel.commit((sql, now) => saveSpendingLimits(sql, now, limits, caller.keyId))
    this.#onHeadroom()
    return this.view(caller)
  }

  async correct(caller: Caller, sent: BudgetCorrect, key: string | null): Promise<CorrectedBudget> {
    await guardEntry(this.#kernel, caller)
    const correct = { ...sent, reason: this.#kernel.hide(sent.reason) }
    const made = this.#kernel.commit((sql, now) =>
      onceByKey(sql, now, { scope: 'budget.correct', key, body: sent }, () => {
        guardOpenSession(guardSession(this.#kernel, caller))
        guardAttempt(this.#kernel, caller)
        return JSON.stringify(correctBudget(sql, now, correct, caller.keyId))
      }),
    )
    this.#onHeadroom()
    return { ...(await this.view(caller)), correction: JSON.parse(made) as BudgetCorrection }
  }

  readonly deadlines = {
    budget: () => this.#onClock(),
    'budget.room': () => this.#onGranted(),
    // Runs that were too many for the commit in which the budget was spent, or was there again.
    'budget.runs': () => this.#kernel.commit((sql, now) => followSpendingOfRuns(sql, now)),
    slice: () => this.#onSlice(),
    'slice.return': () => this.#returnSlice(),
  }

  /** A commit for what costs: in it there is room in the session's slice, or a reason why there is none. */
  readonly spend = async <T>(
    work: (sql: Sql, now: number, headroom: Headroom) => T,
  ): Promise<T> => {
    for (;;) {
      const headroom = this.#look()
      if (headroom.isEnough || !this.#isOpen())
        return this.#kernel.commit((sql, now) => work(sql, now, headroom))
      await this.#takeSliceOnce()
      // Looked at again after the wait: others may have taken all of it.
      const left = this.#look()
      if (left.isEnough || left.reasons.length > 0 || !this.#isOpen())
        return this.#kernel.commit((sql, now) => work(sql, now, left))
    }
  }

  /**
   * A commit that begins a model call of this estimate. Refuses if the budget is spent; null if open calls have reserved
   * what is left. The session's own budget is looked at in the commit's own turn, so calls that come together cannot all
   * take the last of it.
   */
  readonly reserve = async <T>(
    estimate: Estimate,
    work: (sql: Sql, now: number) => T,
  ): Promise<T | null> => {
    this.#waitingCalls.add(estimate)
    try {
      for (let asked = 0; ; asked += 1) {
        const { sql, now } = this.#kernel.ports
        const { spent, isHeld, isInSlice } = modelSpendingRoom(
          sql,
          now(),
          reservedByModelCalls(sql),
        )
        if (spent !== null) throw noBudget('call a model', spent)
        if (isHeld) return null
        if (isInSlice || !this.#isOpen()) return this.#kernel.commit(work)
        const refusal = asked > 0 ? sharedReason(sql) : ''
        if (refusal !== '') throw noBudget('call a model', refusal)
        if (asked === slicesAtMost) return null
        await this.#takeSliceOnce()
      }
    } finally {
      this.#waitingCalls.delete(estimate)
    }
  }

  #look(): Headroom {
    const { sql, now } = this.#kernel.ports
    return spendingHeadroom(sql, now())
  }

  /** Mostly there is nothing to wait for. */
  #ensureSlice(): Promise<void> | undefined {
    return this.#look().isEnough || !this.#isOpen() ? undefined : this.#takeSliceOnce()
  }

  #takeSliceOnce(): Promise<void> {
    this.#asking ??= this.#takeSlice().finally(() => (this.#asking = null))
    return this.#asking
  }

  async #takeSlice(): Promise<void> {
    const { sql, now } = this.#kernel.ports
    const { id: sessionId, project } = this.#kernel.session()
    const slice = loadSlice(sql)
    const spent = difference(usedAmounts(sql, now()), slice.since)
    const reserved = this.#reservedAmounts()
    const claim = { sessionId, project, number: slice.number + 1, spent, reserved }
    try {
      const answer = await this.#claim(claim)
      if (answer.granted === null) return this.#refused(answer.reason)
      const { granted, warnings } = answer
      this.#kernel.commit((sql, at) => {
        saveSlice(sql, { number: claim.number, granted, since: sum(slice.since, spent) })
        clearDeadline(sql, 'slice')
        // Whoever asked for it goes on by itself. What waited before is looked at by the alarm, also after a crash.
        if (isWaitedFor(sql)) setDeadline(sql, 'budget.room', at)
        tellSpendingWarnings(sql, at, warnings)
        setSharedSpendingReason(sql, at, '')
        // It came too late to be used.
        if (!this.#isOpen()) setDeadline(sql, 'slice.return', at)
      })
    } catch (error) {
      this.#refused(`Cannot ask for the organisation's budget: ${messageOf(error)}`)
    }
  }

  #reservedAmounts(): { tokens: number; moneyMicros: number } {
    const { tokens, moneyMicros } = reservedByModelCalls(this.#kernel.ports.sql)
    const sum = { tokens, moneyMicros }
    for (const call of this.#waitingCalls) {
      sum.tokens += call.inputTokens + call.outputTokens
      sum.moneyMicros += call.moneyMicros
    }
    return sum
  }

  /** Watched by an alarm, and not by a timer: a timer would keep the session awake. */
  #claim(claim: BudgetClaim): Promise<BudgetAnswer> {
    this.#kernel.commit((sql, now) =>
      setDeadline(sql, 'slice', now + patienceMs, deadlineAttempts(sql, 'slice')),
    )
    const late = new Promise<never>((_, reject) => {
      this.#giveUp = () => reject(new Error('it does not answer'))
    })
    return Promise.race([outsideOrganisation(this.#kernel).budgets.take(claim), late])
  }

  #refused(reason: string): void {
    this.#kernel.commit((sql, now) => {
      if (!this.#isOpen()) return
      setSharedSpendingReason(sql, now, reason)
      const { attempt, ms } = nextTry(sql)
      setDeadline(sql, 'slice', now + ms, attempt)
    })
  }

  async #onSlice(): Promise<void> {
    if (this.#asking) this.#giveUp()
    const asking = this.#ensureSlice()
    if (asking) await asking
    else this.#noneNeeded()
    if (this.#isOpen()) this.#onHeadroom()
  }

  /** A slice has come, and something waited for it. */
  #onGranted(): void {
    if (this.#isOpen()) this.#onHeadroom()
    this.#kernel.commit((sql) => clearDeadline(sql, 'budget.room'))
  }

  #noneNeeded(): void {
    this.#kernel.commit((sql, now) => {
      clearDeadline(sql, 'slice')
      if (this.#isOpen()) setSharedSpendingReason(sql, now, '')
    })
  }

  #isOpen(): boolean {
    return this.#kernel.session().status === 'open'
  }

  /** Time alone may have used it up. */
  async #onClock(): Promise<void> {
    this.#kernel.commit((sql, now) => followSpending(sql, now))
    await this.#ensureSlice()
  }

  /** The session is closed. What its last model calls used is waited for, for some seconds. */
  async #returnSlice(): Promise<void> {
    const { sql } = this.#kernel.ports
    if (nextExpiry(sql) === null) return this.giveBack()
    this.#kernel.commit((sql, now) => {
      awaitLastModelCalls(sql, now)
      setDeadline(sql, 'slice.return', (nextExpiry(sql) ?? now) + 1)
    })
  }

  /** The session has ended: what is left of its slice is for others. */
  readonly giveBack = async (): Promise<void> => {
    const { sql, now } = this.#kernel.ports
    if (nextExpiry(sql) !== null)
      this.#kernel.commit((sql, at) =>
        settleAllModelCalls(sql, at, pricesOf(this.#kernel.ports.config.models)),
      )
    const { id } = this.#kernel.session()
    const { number, since } = loadSlice(sql)
    // Also if none is known: the answer to a first claim may have been lost.
    const spent = difference(usedAmounts(sql, now()), since)
    await outsideOrganisation(this.#kernel).budgets.giveBack(id, number, spent)
    this.#kernel.commit((sql) => clearDeadline(sql, 'slice.return'))
  }
}

/** A question is parked for it, or a turn is queued. */
const isWaitedFor = (sql: Sql): boolean =>
  isAny(sql, `asks where state = 'open' and input <> 'null'`) ||
  isAny(sql, `turns where state = 'queued'`)

const isAny = (sql: Sql, from: string): boolean =>
  sql.all(`select 1 from ${from} limit 1`).length > 0

function nextTry(sql: Sql): { attempt: number; ms: number } {
  const waits = [`asks where state = 'open'`, `turns where state in ('queued', 'running')`]
  if (waits.some((from) => isAny(sql, from))) return { attempt: 0, ms: askAgainMs }
  const attempt = deadlineAttempts(sql, 'slice')
  return { attempt, ms: Math.min(askAgainAtMostMs, askAgainMs * 2 ** Math.min(attempt, 10)) }
}

/** A prompt costs, and so does an operation. */
export function mustHaveBudget(sql: Sql, now: number, what: string): void {
  const [reason] = spentReasons(sql, now)
  if (reason !== undefined) throw noBudget(what, reason)
}

const noBudget = (what: string, reason: string) =>
  new AppError(
    'budget_spent',
    `Cannot ${what}: ${reason}. Raise it with PUT …/budget, or cancel the run`,
  )

/** A model whose price is not known cannot be held to an amount of money. */
export function budgetMustHavePrice(
  { ports }: Pick<SessionKernel, 'ports'>,
  model: string,
  limits: Budget,
): void {
  if (limits.moneyUsd === undefined) return
  if (parseModel(model, ports.config.models).price !== null) return
  throw new AppError(
    'unprocessable',
    `Model "${model}" has no known price: a budget in money cannot be held`,
    [{ path: 'budget.moneyUsd', message: 'The price of the model is not known' }],
  )
}
