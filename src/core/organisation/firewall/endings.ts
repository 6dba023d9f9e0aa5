import type { Sql } from '../../ports.ts'
import { addAction } from '../record/actions.ts'
import type { SandboxEnd } from '../record/api.ts'
import { noteBreakerSuccess, noteBreakerFailure, releaseBreakerTrial } from './breaker.ts'
import { jitterFraction } from '../../actor/jitter.ts'
import type { OrganisationPorts } from '../record/ports.ts'
import { killSwitchReason } from './switches.ts'
import {
  connectReservation,
  endReservation,
  findReservation,
  type Outcome,
  type ReservationRow,
} from './reservations.ts'

/**
 * How the connection and the end of a sandbox change reservations and breaker together. Sessions report both; the
 * reconciler and the kill switch end sandboxes of which no session speaks.
 */

/** Ended on purpose, or by somebody's mistake. */
const notByProvider: readonly Outcome[] = ['stopped', 'killed', 'refused']

/** Frees the place. One that never connected is a failure of its provider, unless it has another cause. */
export function recordEnding(
  { firewall, crypto }: Pick<OrganisationPorts, 'firewall' | 'crypto'>,
  sql: Sql,
  now: number,
  row: ReservationRow,
  end: { outcome: Outcome; reason: string },
): void {
  endReservation(sql, now, row, end.outcome, end.reason)
  if (row.connectedAt === null && !notByProvider.includes(end.outcome))
    noteBreakerFailure(sql, now, firewall, row, jitterFraction(crypto, 4))
  else releaseBreakerTrial(sql, row)
}

/** What the session says of it. The first report counts; an orphan is ended by whoever found it. */
export function hearSandboxEnding(
  ports: Pick<OrganisationPorts, 'firewall' | 'crypto'>,
  sql: Sql,
  now: number,
  { sessionId, generation, end }: { sessionId: string; generation: number; end: SandboxEnd },
): void {
  const row = findReservation(sql, sessionId, generation)
  if (!row || row.endedAt !== null || row.orphanSince !== null) return
  recordEnding(ports, sql, now, row, end)
  const reason = killSwitchReason(sql)
  if (reason === null) return
  addAction(sql, now, { action: 'sandbox.killed', actor: 'kill-switch', sandbox: row, reason })
}

export function connectedWithoutEnding(
  sql: Sql,
  now: number,
  sessionId: string,
  generation: number,
): void {
  const row = findReservation(sql, sessionId, generation)
  if (!row || row.endedAt !== null || row.orphanSince !== null) return
  if (connectReservation(sql, now, row)) noteBreakerSuccess(sql, now, row)
}
