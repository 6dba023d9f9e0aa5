import { setDeadline } from '../../actor/deadlines.ts'
import type { Sql } from '../../ports.ts'
import type { WarmClaim, WarmEnd, WarmState } from '../record/api.ts'
import { switchRefusal } from '../firewall/switches.ts'
import {
  deletePoolRow,
  ensurePool,
  findPoolClaim,
  findPool,
  findPoolRow,
  firstReadyInPool,
  isColdInPool,
  markColdInPool,
  movePoolRow,
  putOffPool,
  setPoolClaim,
  type WarmRow,
} from './rows.ts'

/**
 * What creations and warm sessions say to a pool: a creation claims a session or returns it, a session says how it is. Each
 * warm session is promised to one creation, and a creation that asks again hears the same. Runs inside the commits of
 * pools.ts.
 */

const firstPauseMs = 30_000
const longestPauseMs = 30 * 60_000

/** Each is promised once, and the same creation hears the same answer ever after. */
export function claimWarm(sql: Sql, now: number, claim: WarmClaim): string | null {
  const { configurationId, version, creationId } = claim
  const known = findPoolClaim(sql, creationId)
  if (known) return known.sessionId
  if (claim.isRepeat) markColdInPool(sql, creationId)
  if (isColdInPool(sql, creationId)) return null
  // Also if there is none, or none of this version: the configuration has changed since the pool was looked at.
  ensurePool(sql, configurationId)
  setDeadline(sql, 'warm', now)
  const found = switchRefusal(sql, now)
    ? undefined
    : firstReadyInPool(sql, configurationId, version)
  if (!found) {
    markColdInPool(sql, creationId)
    return null
  }
  setPoolClaim(sql, found.sessionId, creationId)
  movePoolRow(sql, now, found.sessionId, 'claimed')
  return found.sessionId
}

/** It did not come to it. */
export function returnWarm(
  sql: Sql,
  now: number,
  { creationId, sessionId, isGone }: WarmEnd,
): void {
  const row = findPoolClaim(sql, creationId)
  setDeadline(sql, 'warm', now)
  if (isGone) markColdInPool(sql, creationId)
  if (row?.sessionId !== sessionId) return
  if (isGone) return deletePoolRow(sql, sessionId)
  setPoolClaim(sql, sessionId, null)
  movePoolRow(sql, now, sessionId, 'ready')
}

/** What a session says of itself. Late news of one that has been claimed change nothing. */
export function warmChanged(
  sql: Sql,
  now: number,
  { sessionId, state, reason }: { sessionId: string; state: WarmState; reason: string | null },
): void {
  const row = findPoolRow(sql, sessionId)
  if (!row) return
  if (state === 'claimed') return movePoolRow(sql, now, sessionId, 'adopted')
  if (row.claimedFor !== null) return
  if (state === 'ended') return ended(sql, now, row, reason)
  if (row.state === 'dropped') return
  movePoolRow(sql, now, sessionId, state)
  if (state === 'ready')
    putOffPool(sql, row.configurationId, { failures: 0, retryAt: null, reason: null })
}

function ended(sql: Sql, now: number, row: WarmRow, reason: string | null): void {
  deletePoolRow(sql, row.sessionId)
  setDeadline(sql, 'warm', now)
  if (row.readyAt === null && row.state !== 'dropped')
    warmFailed(sql, now, row.configurationId, reason ?? 'It never became ready')
}

/** 30 s, 1 min, 2 min … 30 min: what fails is tried more and more seldom, one at a time. */
export function warmFailed(sql: Sql, now: number, configurationId: string, reason: string): void {
  const failures = (findPool(sql, configurationId)?.failures ?? 0) + 1
  const pauseMs = Math.min(longestPauseMs, firstPauseMs * 2 ** Math.min(failures - 1, 10))
  putOffPool(sql, configurationId, { failures, retryAt: now + pauseMs, reason })
}
