import type { SandboxEnd } from '../../organisation/record/api.ts'
import type { Sql } from '../../ports.ts'

/** One row for every sandbox that the session ever had. */
export interface Generation {
  generation: number
  snapshotId: string | null
  sentBy: string | null
  endsAt: number | null
  leaseUntil: number | null
  connectedAt: number | null
  readyAt: number | null
  endedAt: number | null
  outcome: SandboxEnd['outcome'] | null
  reason: string | null
  toldAt: number | null
  keptSince: number | null
  keptTries: number
}

const columns = `generation, snapshot_id as snapshotId, sent_by as sentBy, ends_at as endsAt, lease_until as leaseUntil,
  connected_at as connectedAt, ready_at as readyAt, ended_at as endedAt, outcome, reason, told_at as toldAt,
  kept_since as keptSince, kept_tries as keptTries`

export function loadGeneration(sql: Sql, generation: number): Generation | null {
  return (
    sql.all<Generation>(`select ${columns} from sandboxes where generation = ?`, generation)[0] ??
    null
  )
}

export function beginGeneration(sql: Sql, generation: number, snapshotId: string | null): void {
  sql.run(
    'insert or ignore into sandboxes (generation, snapshot_id) values (?, ?)',
    generation,
    snapshotId,
  )
}

/** Lost earlier than this after it was ready, a sandbox counts as one that did not start. */
const steadyMs = 120_000

export const wasReady = (sql: Sql, generation: number): boolean =>
  (loadGeneration(sql, generation)?.readyAt ?? null) !== null

export function isGenerationSteady(sql: Sql, now: number, generation: number): boolean {
  return now - (loadGeneration(sql, generation)?.readyAt ?? now) >= steadyMs
}

/** False if it was known before: each of these happens once. */
function setOnce(
  sql: Sql,
  generation: number,
  column: 'connected_at' | 'ready_at' | 'told_at',
  now: number,
): boolean {
  return (
    sql.all(
      `update sandboxes set ${column} = ? where generation = ? and ${column} is null returning generation`,
      now,
      generation,
    ).length > 0
  )
}
export const noteConnected = (sql: Sql, generation: number, now: number) =>
  setOnce(sql, generation, 'connected_at', now)
export const noteReady = (sql: Sql, generation: number, now: number) =>
  setOnce(sql, generation, 'ready_at', now)
export const noteTold = (sql: Sql, generation: number, now: number) =>
  setOnce(sql, generation, 'told_at', now)

/** The grant counts from its first answer, however often it is asked for. */
export function noteGenerationSent(
  sql: Sql,
  generation: number,
  sent: { by: string; endsAt: number; leaseUntil: number },
): void {
  sql.run(
    'update sandboxes set sent_by = ?, ends_at = coalesce(ends_at, ?), lease_until = ? where generation = ?',
    sent.by,
    sent.endsAt,
    sent.leaseUntil,
    generation,
  )
}

export function noteGenerationExtended(sql: Sql, generation: number, leaseUntil: number): void {
  sql.run('update sandboxes set lease_until = ? where generation = ?', leaseUntil, generation)
}

export function noteGenerationKept(
  sql: Sql,
  generation: number,
  kept: { since: number; tries: number },
): void {
  sql.run(
    'update sandboxes set kept_since = ?, kept_tries = ? where generation = ?',
    kept.since,
    kept.tries,
    generation,
  )
}

/** The first end counts. */
export function endGeneration(sql: Sql, generation: number, now: number, end: SandboxEnd): void {
  sql.run(
    'update sandboxes set ended_at = ?, outcome = ?, reason = ? where generation = ? and ended_at is null',
    now,
    end.outcome,
    end.reason,
    generation,
  )
}

export interface Missing {
  /** The time of the snapshot that is restored; null: it starts without one of the session's own. */
  since: number | null
  /** Whether anything may have been changed after that. */
  anything: boolean
}

/** What a sandbox that starts from this snapshot is without. */
export function missingFromGeneration(sql: Sql, now: number, snapshotId: string | null): Missing {
  const since =
    sql.all<{ at: number }>('select created_at as at from snapshots where id = ?', snapshotId)[0]
      ?.at ?? null
  const worked = sql.all(
    `select 1 from sandboxes where ready_at is not null and coalesce(ended_at, ?) > ? limit 1`,
    now,
    since ?? -1,
  )
  return { since, anything: worked.length > 0 }
}
