import type { ProviderName } from '../../../contract/sandbox.ts'
import { addToOutbox } from '../../actor/outbox.ts'
import type { Sql } from '../../ports.ts'
import { shorten } from '../record/actions.ts'

/**
 * The reservations: the rows of the places that this organisation has given, and the only book of what its sandboxes
 * use. places.ts inserts them, endings.ts and the reconciler end them, and every change goes to libSQL through the
 * outbox. Every function runs inside a commit or a read of its caller.
 */

export const hourMs = 60 * 60_000
export const dayMs = 24 * hourMs
/** Longer than anything that is booked can matter to a day: the day itself, and the one before. */
const keepEndedMs = 3 * dayMs

export type Outcome =
  | 'stopped'
  | 'failed'
  | 'lost'
  | 'refused'
  | 'expired'
  | 'vanished'
  | 'killed'
  | 'orphan'

/**
 * A place for one sandbox, by session and generation. Its row is the only book: what is used of a day is the time
 * that the rows cover of it, so a reservation that nobody ends costs its whole lifetime and not more, and one that ends
 * early gives the rest back by ending.
 */
export interface ReservationRow {
  sessionId: string
  generation: number
  provider: ProviderName
  project: string
  price: number
  grantedAt: number
  until: number | null
  attempts: number
  connectedAt: number | null
  missingSince: number | null
  orphanSince: number | null
  endedAt: number | null
  outcome: Outcome | null
  reason: string | null
}

const columns = `session_id as sessionId, generation, provider, project, price, granted_at as grantedAt, until, attempts,
  connected_at as connectedAt, missing_since as missingSince, orphan_since as orphanSince, ended_at as endedAt, outcome,
  reason`

const isLive = 'ended_at is null and (until is null or until > ?)'

export function findReservation(
  sql: Sql,
  sessionId: string,
  generation: number,
): ReservationRow | undefined {
  return sql.all<ReservationRow>(
    `select ${columns} from reservations where session_id = ? and generation = ?`,
    sessionId,
    generation,
  )[0]
}

/** Orphans are among them: what runs takes a place. */
export function liveReservations(sql: Sql, now: number): ReservationRow[] {
  return sql.all<ReservationRow>(`select ${columns} from reservations where ${isLive}`, now)
}

/** Their lifetime has passed, and nobody has said how they ended. */
export function overdueReservations(sql: Sql, now: number): ReservationRow[] {
  return sql.all<ReservationRow>(
    `select ${columns} from reservations where ended_at is null and until <= ?`,
    now,
  )
}

export function countLiveReservations(
  sql: Sql,
  now: number,
  project: string | null = null,
): number {
  return count(
    sql.all(
      `select count(*) as count from reservations where ${isLive} and (? is null or project = ?)`,
      now,
      project,
      project,
    ),
  )
}

export function countReserved(sql: Sql, since: number, project: string | null): number {
  return count(
    sql.all(
      'select count(*) as count from reservations where granted_at > ? and (? is null or project = ?)',
      since,
      project,
      project,
    ),
  )
}

/** When the `limit`-th newest was reserved; null if there are fewer. */
export function reservedBefore(sql: Sql, limit: number, project: string | null): number | null {
  const [row] = sql.all<{ at: number }>(
    `select granted_at as at from reservations where (? is null or project = ?)
     order by granted_at desc limit 1 offset ?`,
    project,
    project,
    limit - 1,
  )
  return row?.at ?? null
}

interface Booked {
  ms: number
  money: number
}

/** What the rows cover of the UTC day that begins at `day`. */
export function reservedOn(sql: Sql, now: number, day: number, project: string | null): Booked {
  const covered = `max(0, min(coalesce(until, ?1), ?2) - max(granted_at, ?3))`
  const [row] = sql.all<{ ms: number | null; money: number | null }>(
    `select sum(${covered}) as ms, sum(${covered} * price) / ${hourMs}.0 as money from reservations
     where (until > ?3 or until is null) and granted_at < ?2 and (?4 is null or project = ?4)`,
    now,
    day + dayMs,
    day,
    project,
  )
  return { ms: row?.ms ?? 0, money: row?.money ?? 0 }
}

type NewReservation = Pick<
  ReservationRow,
  'sessionId' | 'generation' | 'provider' | 'project' | 'price' | 'until'
> & { orphan: boolean }

export function insertReservation(
  sql: Sql,
  now: number,
  { sessionId, generation, provider, project, price, until, orphan }: NewReservation,
): void {
  sql.run(
    `insert into reservations (session_id, generation, provider, project, price, granted_at, until, attempts, orphan_since)
     values (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    sessionId,
    generation,
    provider,
    project,
    price,
    now,
    until,
    orphan ? 0 : 1,
    orphan ? now : null,
  )
  toLedger(sql, now, sessionId, generation)
}

export function countReservationAttempt(sql: Sql, row: ReservationRow): void {
  sql.run(
    'update reservations set attempts = attempts + 1 where session_id = ? and generation = ?',
    row.sessionId,
    row.generation,
  )
}

/** False: it was connected before, or is none of ours. */
export function connectReservation(sql: Sql, now: number, row: ReservationRow): boolean {
  if (row.connectedAt !== null) return false
  sql.run(
    'update reservations set connected_at = ? where session_id = ? and generation = ?',
    now,
    row.sessionId,
    row.generation,
  )
  return true
}

/** Gives back what is left of its time. Not beyond what was booked: the provider has ended it by then. */
export function endReservation(
  sql: Sql,
  now: number,
  { sessionId, generation }: Pick<ReservationRow, 'sessionId' | 'generation'>,
  outcome: Outcome,
  reason: string,
): void {
  sql.run(
    `update reservations set ended_at = ?1, until = min(coalesce(until, ?1), ?1), outcome = ?2, reason = ?3,
       missing_since = null, orphan_since = null
     where session_id = ?4 and generation = ?5`,
    now,
    outcome,
    shorten(reason),
    sessionId,
    generation,
  )
  toLedger(sql, now, sessionId, generation)
}

/** It runs although it was said to have ended, or its time is over: from here on it counts again. */
export function reopenReservation(sql: Sql, now: number, row: ReservationRow): void {
  sql.run(
    `update reservations set ended_at = null, until = null, outcome = null, reason = null, missing_since = null,
       orphan_since = ? where session_id = ? and generation = ?`,
    now,
    row.sessionId,
    row.generation,
  )
  toLedger(sql, now, row.sessionId, row.generation)
}

export function markReservationMissing(sql: Sql, row: ReservationRow, since: number | null): void {
  sql.run(
    'update reservations set missing_since = ? where session_id = ? and generation = ?',
    since,
    row.sessionId,
    row.generation,
  )
}

export function reservedProviders(sql: Sql): ProviderName[] {
  return sql
    .all<{ provider: ProviderName }>('select distinct provider from reservations order by provider')
    .map(({ provider }) => provider)
}

/** Whether any place was held since then. */
export function reservedSince(sql: Sql, since: number): boolean {
  return (
    sql.all('select 1 from reservations where ended_at is null or ended_at > ? limit 1', since)
      .length > 0
  )
}

/** libSQL keeps them. */
export function pruneReservations(sql: Sql, now: number): void {
  sql.run('delete from reservations where ended_at < ?1 and until < ?1', now - keepEndedMs)
}

/** The ledger's row, as it stands after this change. */
function toLedger(sql: Sql, now: number, sessionId: string, generation: number): void {
  const row = findReservation(sql, sessionId, generation)
  if (!row) return
  const { provider, project, price, grantedAt, until, connectedAt, endedAt, outcome, reason } = row
  const seconds = ((until ?? now) - grantedAt) / 1000
  addToOutbox(sql, now, 'sandbox_reservation', {
    sessionId,
    generation,
    provider,
    project,
    grantedAt,
    connectedAt,
    endedAt,
    outcome,
    reason,
    seconds: Math.round(seconds),
    money: (seconds * price) / 3600,
  })
}

/** A row whose record stays can be told to libSQL anew, as it is now. Of an action nothing stays. */
export const canBeTold = (kind: string): boolean => kind === 'sandbox_reservation'

/** Inside a commit. False: nothing is left of this kind to tell from. */
export function tellReservationsAnew(sql: Sql, now: number, kind: string): boolean {
  if (!canBeTold(kind)) return false
  const rows = sql.all<{ session_id: string; generation: number }>(
    'select session_id, generation from reservations order by granted_at',
  )
  for (const { session_id, generation } of rows) toLedger(sql, now, session_id, generation)
  return true
}

const count = (rows: object[]): number => (rows[0] as { count: number } | undefined)?.count ?? 0
