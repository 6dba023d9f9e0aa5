import type { Firewall } from '../../../contract/limits.ts'
import { setDeadline } from '../../actor/deadlines.ts'
import type { Sql } from '../../ports.ts'
import type { SandboxClaim } from '../record/api.ts'
import { switchRefusal } from '../firewall/switches.ts'
import { type Scope, limitScopes } from '../firewall/limits.ts'
import type { WarmPlan } from '../record/ports.ts'
import { decidePlace } from '../firewall/places.ts'
import { countLiveReservations, countReserved, hourMs } from '../firewall/reservations.ts'
import {
  countPlacelessInPools,
  findPool,
  findPoolRow,
  listPools,
  movePoolRow,
  putOffPool,
  waitingPoolRows,
} from './rows.ts'

/**
 * How much a warm pool may grow, and how it gives way. A pool takes only places that are free, and if a session is refused
 * a place, a warm session that nobody has claimed gives up its own.
 */

/** Only a person can change it, or an hour that passes: until then it is looked at now and then. */
const refusedMs = 5 * 60_000
/** The place that a pool gives up is for the session that asked for it, which asks again meanwhile. */
const yieldMs = 2 * 60_000

/** How many more may be started now. A pool takes no place that is not free, and waits for none. */
export function decideGrowth(
  sql: Sql,
  now: number,
  firewall: Firewall,
  { configurationId, project, provider }: WarmPlan,
  short: number,
): number {
  const pool = findPool(sql, configurationId)
  if (!pool || short <= 0 || (pool.retryAt ?? 0) > now) return 0
  const place = switchRefusal(sql, now) ?? decidePlace(sql, now, firewall, { project, provider })
  if (!place.granted) {
    const retryAt = Math.max(now + 30_000, place.retryAt ?? now + refusedMs)
    putOffPool(sql, configurationId, { ...pool, retryAt, reason: place.reason })
    return 0
  }
  const scopes = limitScopes(sql, firewall, project)
  const left = Math.min(freePlaces(sql, now, scopes), leftThisHour(sql, now, scopes))
  const free = left - countPlacelessInPools(sql)
  // After a failure one at a time tries whether it works again.
  const most = pool.failures > 0 ? 1 - startingOf(sql, configurationId) : short
  return Math.max(0, Math.min(short, free, most))
}

const startingOf = (sql: Sql, configurationId: string): number =>
  waitingPoolRows(sql, configurationId).filter(({ state }) => state !== 'ready').length

function freePlaces(sql: Sql, now: number, scopes: readonly Scope[]): number {
  const free = scopes.map(({ project, limits }) =>
    limits.concurrentSandboxes === undefined
      ? Infinity
      : limits.concurrentSandboxes - countLiveReservations(sql, now, project),
  )
  return Math.min(...free)
}

function leftThisHour(sql: Sql, now: number, scopes: readonly Scope[]): number {
  const left = scopes.map(({ project, limits }) =>
    limits.sandboxesPerHour === undefined
      ? Infinity
      : limits.sandboxesPerHour - countReserved(sql, now - hourMs, project),
  )
  return Math.min(...left)
}

/** Nobody waits for a place that only waits itself: a warm session that is not claimed gives up its own. */
export function yieldPoolPlace(
  sql: Sql,
  now: number,
  firewall: Firewall,
  claim: SandboxClaim,
): void {
  const own = findPoolRow(sql, claim.sessionId)
  if (own && own.claimedFor === null) return
  const full = limitScopes(sql, firewall, claim.project).filter(
    (s) => freePlaces(sql, now, [s]) <= 0,
  )
  if (full.length === 0) return
  const helps = (project: string) => full.every((s) => s.project === null || s.project === project)
  for (const pool of listPools(sql)) {
    const [row] = helps(pool.project) ? waitingPoolRows(sql, pool.configurationId) : []
    if (!row) continue
    movePoolRow(sql, now, row.sessionId, 'dropped')
    setDeadline(sql, 'warm', now)
    const reason = 'Its place was needed for a session'
    putOffPool(sql, pool.configurationId, { ...pool, retryAt: now + yieldMs, reason })
    return
  }
}
