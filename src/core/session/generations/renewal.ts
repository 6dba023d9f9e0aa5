import { deadlineAt, setDeadline } from '../../actor/deadlines.ts'
import type { Sql } from '../../ports.ts'

/** So long after its end a token of the current generation still buys a new one. */
const renewMs = 60 * 60_000
/** A deadline that comes so late was slept over: the machine was suspended, or no process was there. */
export const sleptMs = 60_000
/** While a sandbox lives, one of these looks at it every minute at least: they tell when nobody could. */
const looks = ['sandbox.pulse', 'sandbox.check', 'sandbox.look']

/** Inside a commit, when a deadline has come that was slept over: from now on its agent could be answered. */
export function allowRenewal(sql: Sql, now: number, name: string): void {
  if (looks.includes(name)) setDeadline(sql, 'sandbox.renew', now + renewMs)
}

/** An agent that slept with its control plane may be the first to call: what looks at it is then still overdue. */
export function mayRenew(sql: Sql, now: number, expiredAt: number): boolean {
  if (now <= expiredAt + renewMs || deadlineAt(sql, 'sandbox.renew') !== null) return true
  return looks.some((name) => now - (deadlineAt(sql, name) ?? now) >= sleptMs)
}
