import type { Sql } from '../ports.ts'
import { addAction } from './actions.ts'
import type { SandboxEnd } from './api.ts'
import { noteConnected, noteFailed, releaseTrial } from './breaker.ts'
import type { OrganisationKernel } from './kernel.ts'
import { killReason } from './kill-switch.ts'
import {
  connectReservation,
  endReservation,
  findReservation,
  type Outcome,
  type ReservationRow,
} from './reservations.ts'

/** Frees the place. One that never connected is a failure of its provider, unless somebody ended it on purpose. */
export function endSandbox(
  { ports, jitter }: Pick<OrganisationKernel, 'ports' | 'jitter'>,
  sql: Sql,
  now: number,
  row: ReservationRow,
  end: { outcome: Outcome; reason: string },
): void {
  endReservation(sql, now, row, end.outcome, end.reason)
  const onPurpose = end.outcome === 'stopped' || end.outcome === 'killed'
  if (row.connectedAt === null && !onPurpose)
    noteFailed(sql, now, ports.firewall, row, end.reason, jitter())
  else releaseTrial(sql, row)
}

/** What the session says of it. The first word counts; an orphan is ended by who found it. */
export function sandboxEnded(
  kernel: OrganisationKernel,
  sql: Sql,
  now: number,
  { sessionId, generation, end }: { sessionId: string; generation: number; end: SandboxEnd },
): void {
  const row = findReservation(sql, sessionId, generation)
  if (!row || row.endedAt !== null || row.orphanSince !== null) return
  endSandbox(kernel, sql, now, row, end)
  const reason = killReason(sql)
  if (reason === null) return
  addAction(sql, now, { action: 'sandbox.killed', actor: 'kill-switch', sandbox: row, reason })
}

export function sandboxConnected(
  sql: Sql,
  now: number,
  sessionId: string,
  generation: number,
): void {
  const row = findReservation(sql, sessionId, generation)
  if (!row || row.endedAt !== null || row.orphanSince !== null) return
  if (connectReservation(sql, now, row)) noteConnected(sql, now, row)
}
