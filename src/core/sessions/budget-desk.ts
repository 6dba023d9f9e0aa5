import type { Budget, BudgetView } from '../../contract/budget.ts'
import { AppError } from '../../contract/error.ts'
import { parseModel } from '../../contract/models.ts'
import { clearDeadline, setDeadline } from '../deadlines.ts'
import type { BudgetAnswer, BudgetClaim } from '../organisations/api.ts'
import type { Sql } from '../ports.ts'
import {
  followBudget,
  lookForRoom,
  type Room,
  saveBudget,
  setSharedReason,
  spentReasons,
  tellWarnings,
  usedAmounts,
  viewBudget,
} from '../runs/budget.ts'
import type { BudgetApi } from './api.ts'
import type { Caller } from './caller.ts'
import { callerSession, mustBeOpen } from './doors.ts'
import type { Kernel } from './kernel.ts'
import { messageOf, organisationOf } from './outside.ts'
import { difference, loadSlice, saveSlice, sum } from './slice.ts'

/** So often while something waits for the answer, and ever more rarely while nothing does. */
const askAgainMs = 3000
const askAgainAtMostMs = 600_000
/** Nothing that an agent asks may hang: an organisation that does not answer gives nothing. */
const patienceMs = 10_000

/** The session's own budget, and its part of those that it shares. */
export class BudgetDesk implements BudgetApi {
  readonly #kernel: Kernel
  /** There may be budget again: what waits for it is looked at anew. */
  readonly #onRoom: () => void
  #asking: Promise<void> | null = null
  #giveUp: () => void = () => {}

  constructor(kernel: Kernel, onRoom: () => void) {
    this.#kernel = kernel
    this.#onRoom = onRoom
  }

  async budget(caller: Caller): Promise<BudgetView> {
    callerSession(this.#kernel, caller)
    return viewBudget(this.#kernel.ports.sql, this.#kernel.ports.now())
  }

  async setBudget(caller: Caller, limits: Budget): Promise<BudgetView> {
    const session = callerSession(this.#kernel, caller)
    mustBeOpen(session)
    mustHavePrice(this.#kernel, session.model, limits)
    this.#kernel.commit((sql, now) => saveBudget(sql, now, limits, caller.keyId))
    this.#onRoom()
    return this.budget(caller)
  }

  /** A commit for what costs: in it there is room in the session's slice, or a reason why there is none. */
  async spend<T>(work: (sql: Sql, now: number, room: Room) => T): Promise<T> {
    for (;;) {
      const room = this.#look()
      if (room.hasRoom || !this.#isOpen())
        return this.#kernel.commit((sql, now) => work(sql, now, room))
      await this.#takeSliceOnce()
      // Looked at again after the wait: others may have taken all of it.
      const left = this.#look()
      if (left.hasRoom || left.reasons.length > 0 || !this.#isOpen())
        return this.#kernel.commit((sql, now) => work(sql, now, left))
    }
  }

  #look(): Room {
    const { sql, now } = this.#kernel.ports
    return lookForRoom(sql, now())
  }

  /** Mostly there is nothing to wait for. */
  #ensureSlice(): Promise<void> | undefined {
    return this.#look().hasRoom || !this.#isOpen() ? undefined : this.#takeSliceOnce()
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
    const claim = { sessionId, project, number: slice.number + 1, spent }
    try {
      const answer = await this.#claim(claim)
      if (answer.granted === null) return this.#refused(answer.reason)
      const { granted, warnings } = answer
      this.#kernel.commit((sql, at) => {
        saveSlice(sql, { number: claim.number, granted, since: sum(slice.since, spent) })
        clearDeadline(sql, 'slice')
        tellWarnings(sql, at, warnings)
        setSharedReason(sql, at, '')
        // It came too late to be used.
        if (!this.#isOpen()) setDeadline(sql, 'slice.return', at)
      })
    } catch (error) {
      this.#refused(`Cannot ask for the organisation's budget: ${messageOf(error)}`)
    }
  }

  /** Watched by an alarm, and not by a timer: a timer would keep the session awake. */
  #claim(claim: BudgetClaim): Promise<BudgetAnswer> {
    this.#kernel.commit((sql, now) => setDeadline(sql, 'slice', now + patienceMs, triesOf(sql)))
    const late = new Promise<never>((_, reject) => {
      this.#giveUp = () => reject(new Error('it does not answer'))
    })
    return Promise.race([organisationOf(this.#kernel).takeBudget(claim), late])
  }

  #refused(reason: string): void {
    this.#kernel.commit((sql, now) => {
      if (!this.#isOpen()) return
      setSharedReason(sql, now, reason)
      const { attempt, ms } = nextTry(sql)
      setDeadline(sql, 'slice', now + ms, attempt)
    })
  }

  async onSlice(): Promise<void> {
    if (this.#asking) this.#giveUp()
    const asking = this.#ensureSlice()
    if (asking) await asking
    else this.#noneNeeded()
    if (this.#isOpen()) this.#onRoom()
  }

  #noneNeeded(): void {
    this.#kernel.commit((sql, now) => {
      clearDeadline(sql, 'slice')
      if (this.#isOpen()) setSharedReason(sql, now, '')
    })
  }

  #isOpen(): boolean {
    return this.#kernel.session().status === 'open'
  }

  /** Time alone may have used it up. */
  async onClock(): Promise<void> {
    this.#kernel.commit((sql, now) => followBudget(sql, now))
    await this.#ensureSlice()
  }

  /** The session has ended: what is left of its slice is for others. */
  async onReturn(): Promise<void> {
    const { sql, now } = this.#kernel.ports
    const { id } = this.#kernel.session()
    const { number, since } = loadSlice(sql)
    // Also if none is known: the answer to a first claim may have been lost.
    const spent = difference(usedAmounts(sql, now()), since)
    await organisationOf(this.#kernel).returnBudget(id, number, spent)
    this.#kernel.commit((sql) => clearDeadline(sql, 'slice.return'))
  }
}

function nextTry(sql: Sql): { attempt: number; ms: number } {
  const waits = [`asks where state = 'open'`, `turns where state in ('queued', 'running')`]
  if (waits.some((from) => sql.all(`select 1 from ${from} limit 1`).length > 0))
    return { attempt: 0, ms: askAgainMs }
  const attempt = triesOf(sql)
  return { attempt, ms: Math.min(askAgainAtMostMs, askAgainMs * 2 ** Math.min(attempt, 10)) }
}

const triesOf = (sql: Sql): number =>
  sql.all<{ attempt: number }>(`select attempt from deadlines where name = 'slice'`)[0]?.attempt ??
  0

/** A prompt costs, and so does an operation. */
export function mustHaveBudget(sql: Sql, now: number, what: string): void {
  const [reason] = spentReasons(sql, now)
  if (reason !== undefined)
    throw new AppError(
      'budget_spent',
      `Cannot ${what}: ${reason}. Raise it with PUT …/budget, or cancel the run`,
    )
}

/** A model whose price is not known cannot be held to an amount of money. */
export function mustHavePrice(
  { ports }: Pick<Kernel, 'ports'>,
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
