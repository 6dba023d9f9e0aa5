import type { Firewall, LimitName } from '../../../contract/limits.ts'
import { ensureDeadline } from '../../actor/deadlines.ts'
import type { Sql } from '../../ports.ts'
import {
  type Refusal,
  organisationApiRefusal,
  type Reservation,
  type SandboxClaim,
} from '../record/api.ts'
import { breakerRefusal, noteBreakerTrial } from './breaker.ts'
import { switchRefusal } from './switches.ts'
import { limitPrices, type Scope, limitScopes, startOfDay } from './limits.ts'
import {
  reservedOn,
  countReservationAttempt,
  countLiveReservations,
  dayMs,
  findReservation,
  hourMs,
  insertReservation,
  reservedBefore,
  type ReservationRow,
} from './reservations.ts'

/**
 * Decides whether a sandbox gets a place, and for which lifetime: kill switches first, then the breaker, then every limit
 * of the organisation and of the project. `sandboxes.ts` takes a place for a session; warm pools ask
 * `decidePlace` whether there is one.
 */

/** The provider may be asked to create one sandbox so often: a session that restarts in a loop must not go on for ever. */
export const maxAttempts = 10
/** A provider counts a lifetime from when it has the sandbox, the books from the reservation: so much later it may be. */
export const startSeconds = 60
const leastLifetimeSeconds = 60
/** Others may end at any moment and give back what they hold. */
const lookAgainMs = 30_000

/** Checks everything and takes the place in the same transaction: nothing can come between. */
export function takePlace(
  sql: Sql,
  now: number,
  firewall: Firewall,
  claim: SandboxClaim,
): Reservation {
  const killed = switchRefusal(sql, now)
  if (killed) return killed
  const held = findReservation(sql, claim.sessionId, claim.generation)
  if (held) return giveAgain(sql, now, held)
  const booking = decidePlace(sql, now, firewall, claim)
  if (!booking.granted) return booking
  const price = limitPrices(firewall)[claim.provider]
  noteBreakerTrial(sql, now, claim)
  const until = now + (booking.lifetimeSeconds + startSeconds) * 1000
  insertReservation(sql, now, { ...claim, price, until, orphan: false })
  ensureDeadline(sql, 'reconcile', now + firewall.reconcileSeconds * 1000)
  return booking
}

/** Whether there is a place now, and for how long. Nothing is taken. */
export function decidePlace(
  sql: Sql,
  now: number,
  firewall: Firewall,
  { provider, project }: Pick<SandboxClaim, 'provider' | 'project'>,
): Reservation {
  const scopes = limitScopes(sql, firewall, project)
  const refusal =
    breakerRefusal(sql, now, provider) ?? firstRefusal(scopes, (s) => countRefusal(sql, now, s))
  return refusal ?? decideBooking(sql, now, scopes, limitPrices(firewall)[provider])
}

/** The place is held already: the answer was lost, or the provider is asked once more. */
function giveAgain(sql: Sql, now: number, held: ReservationRow): Reservation {
  // One that has ended is booked until its end, an orphan not at all.
  const { until, attempts } = held
  const lifetimeSeconds = Math.floor(((until ?? 0) - now) / 1000) - startSeconds
  if (lifetimeSeconds < leastLifetimeSeconds) {
    return organisationApiRefusal(
      'this sandbox has ended or its time is over: replace it by a new one',
      null,
    )
  }
  if (attempts >= maxAttempts) {
    return organisationApiRefusal(`it was tried ${attempts} times: replace it by a new one`, null)
  }
  countReservationAttempt(sql, held)
  return { granted: true, lifetimeSeconds }
}

function countRefusal(sql: Sql, now: number, scope: Scope): Refusal | null {
  const { sandboxesPerHour, concurrentSandboxes } = scope.limits
  const full = sandboxesPerHour && reservedBefore(sql, sandboxesPerHour, scope.project)
  if (sandboxesPerHour === 0) return limitRefusal(scope, 'sandboxesPerHour', null)
  if (full && full > now - hourMs) return limitRefusal(scope, 'sandboxesPerHour', full + hourMs)
  if (concurrentSandboxes === undefined) return null
  if (countLiveReservations(sql, now, scope.project) < concurrentSandboxes) return null
  const retryAt = concurrentSandboxes === 0 ? null : now + lookAgainMs
  return limitRefusal(scope, 'concurrentSandboxes', retryAt)
}

/** The longest lifetime whose every part fits into its day's budget. */
function decideBooking(
  sql: Sql,
  now: number,
  scopes: readonly Scope[],
  price: number,
): Reservation {
  let lifetimeSeconds = Infinity
  for (const scope of scopes) {
    lifetimeSeconds = Math.min(lifetimeSeconds, scope.limits.lifetimeSeconds ?? Infinity)
    for (const [name, freeMs] of budgets(sql, now, scope, price)) {
      const ms = fittingMs(now, (lifetimeSeconds + startSeconds) * 1000, freeMs)
      lifetimeSeconds = Math.min(lifetimeSeconds, Math.floor(ms / 1000) - startSeconds)
      if (lifetimeSeconds < leastLifetimeSeconds) return budgetRefusal(sql, now, scope, name)
    }
  }
  return { granted: true, lifetimeSeconds }
}

type Budget = [name: LimitName, freeMs: (day: number) => number]

/** How much time each of them leaves of a day. What is free of charge takes nothing from the money. */
function budgets(sql: Sql, now: number, { project, limits }: Scope, price: number): Budget[] {
  const { hoursPerDay, moneyPerDay } = limits
  const booked = (day: number) => reservedOn(sql, now, day, project)
  const all: Budget[] = []
  if (hoursPerDay !== undefined)
    all.push(['hoursPerDay', (day) => hoursPerDay * hourMs - booked(day).ms])
  if (moneyPerDay !== undefined && price > 0)
    all.push(['moneyPerDay', (day) => ((moneyPerDay - booked(day).money) / price) * hourMs])
  return all
}

/** Time is booked without gaps, so the first day that is full ends it. */
function fittingMs(now: number, wantedMs: number, freeMs: (day: number) => number): number {
  let fitting = 0
  while (fitting < wantedMs) {
    const day = startOfDay(now + fitting)
    const part = Math.min(wantedMs - fitting, day + dayMs - (now + fitting))
    const free = Math.max(0, freeMs(day))
    if (free < part) return fitting + free
    fitting += part
  }
  return fitting
}

function budgetRefusal(sql: Sql, now: number, scope: Scope, name: LimitName): Refusal {
  const tomorrow = startOfDay(now) + dayMs
  // What the living do not use comes back when they end.
  const mayFree = countLiveReservations(sql, now, scope.project) > 0
  const retryAt = mayFree ? Math.min(tomorrow, now + lookAgainMs) : tomorrow
  return limitRefusal(scope, name, scope.limits[name] === 0 ? null : retryAt)
}

function firstRefusal(
  scopes: readonly Scope[],
  check: (scope: Scope) => Refusal | null,
): Refusal | null {
  for (const scope of scopes) {
    const refusal = check(scope)
    if (refusal) return refusal
  }
  return null
}

const units: Record<LimitName, string> = {
  sandboxesPerHour: 'sandboxes per hour have been started',
  concurrentSandboxes: 'concurrent sandboxes are there',
  hoursPerDay: 'sandbox hours of this day are used or reserved',
  moneyPerDay: 'USD of this day are used or reserved',
  lifetimeSeconds: 'seconds of one sandbox',
}

function limitRefusal(scope: Scope, name: LimitName, retryAt: number | null): Refusal {
  const where = scope.project === null ? 'organisation' : `project "${scope.project}"`
  const path = scope.project === null ? '' : `?project=${scope.project}`
  return organisationApiRefusal(
    `all ${scope.limits[name]} ${units[name]} (limit ${name} of the ${where}). ` +
      `Stop sandboxes, wait, or raise the limit with PUT /v1/limits${path}`,
    retryAt,
  )
}
