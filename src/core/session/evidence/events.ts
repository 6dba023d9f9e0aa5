import { acceptedProofs, type ChangeEvent } from '../../../contract/change.ts'
import { addToOutbox } from '../../actor/outbox.ts'
import { pageThatFits } from '../../actor/paging.ts'
import { groupBy } from '../../evidence/group-by.ts'
import { hashText } from '../../hash.ts'
import type { Sql } from '../../ports.ts'
import { recordOnRun } from '../runs/rows.ts'

// The ledger of changes, append-only. One import key has at most one event of each rank, and the one of the highest rank
// counts; importing the same again, or something weaker, adds nothing.

export interface EventRow {
  n: number
  id: string
  run_id: string
  turn_id: string | null
  key_hash: string | null
  rank: number
  path: string
  event: string
  hash: string
  created_at: number
}

const hasText = ({ before, after }: ChangeEvent) => before !== null || after !== null

/** How good its evidence is. Without a text it never beats one that has it. */
export function evidenceEventRank(event: ChangeEvent): number {
  const { evidenceProof } = event
  const isSnapshot = evidenceProof === 'opencode-snapshot'
  if (!hasText(event)) return isSnapshot ? 20 : 10
  if (isSnapshot) return 50
  return acceptedProofs.some((proof) => proof === evidenceProof) ? 40 : 30
}

/** False: it is known already, or something better is. Inside a commit. */
export function importEvidenceEvent(
  sql: Sql,
  now: number,
  of: { runId: string; turnId: string | null; event: ChangeEvent },
): boolean {
  const { runId, turnId } = of
  const key = of.event.sourceImportKey
  const keyHash = key === null ? null : hashText(key)
  const rank = evidenceEventRank(of.event)
  const known = keyHash === null ? undefined : bestOf(sql, runId, keyHash)
  if ((known && known.rank >= rank) || isThere(sql, runId, of.event.eventId)) return false
  const event = known ? { ...of.event, supersedesEventId: known.id } : of.event
  const text = JSON.stringify(event)
  const hash = hashText(text)
  sql.run(
    `insert into change_events (id, run_id, turn_id, key_hash, rank, path, event, hash, created_at)
     values (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    event.eventId,
    runId,
    turnId,
    keyHash,
    rank,
    event.relativePath,
    text,
    hash,
    now,
  )
  const { eventId, relativePath: path, operation, evidenceProof: proof, confidence } = event
  recordOnRun(sql, now, runId, 'change.recorded', {
    ...{ eventId, hash, path, operation, proof, confidence, source: event.source },
    ...{ supersedes: event.supersedesEventId },
  })
  nameEvent(sql, now, runId, event.eventId)
  return true
}

const isThere = (sql: Sql, runId: string, id: string): boolean =>
  sql.all('select 1 from change_events where run_id = ? and id = ?', runId, id).length > 0

function bestOf(sql: Sql, runId: string, keyHash: string): EventRow | undefined {
  return sql.all<EventRow>(
    'select * from change_events where run_id = ? and key_hash = ? order by rank desc limit 1',
    runId,
    keyHash,
  )[0]
}

function nameEvent(sql: Sql, now: number, runId: string, eventId: string): void {
  const [row] = sql.all<EventRow>(
    'select * from change_events where run_id = ? and id = ?',
    runId,
    eventId,
  )
  if (row) addToOutbox(sql, now, 'change_event', ledgerRow(row))
}

function ledgerRow(row: EventRow): Record<string, unknown> {
  const event = JSON.parse(row.event) as ChangeEvent
  return {
    runId: row.run_id,
    turnId: row.turn_id,
    eventId: row.id,
    keyHash: row.key_hash,
    rank: row.rank,
    path: row.path,
    operation: event.operation,
    confidence: event.confidence,
    proof: event.evidenceProof,
    source: event.source,
    provider: event.sourceProvider,
    beforeSha256: event.before?.sha256 ?? null,
    afterSha256: event.after?.sha256 ?? null,
    supersedes: event.supersedesEventId,
    event: row.event,
    hash: row.hash,
    createdAt: row.created_at,
  }
}

/** All of them, anew. */
export function projectEvidenceEvents(sql: Sql, now: number): void {
  for (const row of sql.all<EventRow>('select * from change_events order by n'))
    addToOutbox(sql, now, 'change_event', ledgerRow(row))
}

/** Whether a change of the run has this text. */
export function hasEventText(sql: Sql, runId: string, sha256: string): boolean {
  const [row] = sql.all(
    `select 1 from change_events where run_id = ?1 and instr(event, ?2) > 0
       and ?2 in (json_extract(event, '$.before.sha256'), json_extract(event, '$.after.sha256')) limit 1`,
    runId,
    sha256,
  )
  return row !== undefined
}

export interface StoredEvent {
  n: number
  eventId: string
  hash: string
  /** The bytes that were hashed. */
  event: string
}

/** In the order in which they were recorded. Empty only if there is nothing after `after`. */
export function storedEvidenceEvents(sql: Sql, runId: string, after: number): StoredEvent[] {
  const from = 'change_events where run_id = ? and n > ?'
  const query = { from, by: 'n', size: 'length(event)', limit: 1000 }
  return pageThatFits<EventRow>(sql, query, runId, after).map(({ n, id, hash, event }) => ({
    ...{ n, eventId: id, hash, event },
  }))
}

/** Of each key the best one, and where the key was first recorded; one without a key stands for itself. ?1 is the run. */
const counting = `(select e.n, e.rank, e.path,
    coalesce((select min(k.n) from change_events k where k.run_id = ?1 and k.key_hash = e.key_hash), e.n) as first
  from change_events e
  where e.run_id = ?1 and not exists (
    select 1 from change_events b where b.run_id = ?1 and b.key_hash = e.key_hash and b.rank > e.rank))`

export interface CountedEvents {
  files: number
  unproven: number
  /** The newest one. Null: there is none. */
  last: number | null
}

export function countEvidenceEvents(sql: Sql, runId: string): CountedEvents {
  const [counted] = sql.all<CountedEvents>(
    `select count(distinct path) as files, count(iif(rank < 40, 1, null)) as unproven, max(n) as last from ${counting}`,
    runId,
  )
  return counted as CountedEvents
}

/** A file that the run has changed, and the numbers of its counting events in their order. */
export interface ChangedFile {
  path: string
  /** Where its first change is recorded. */
  first: number
  events: number[]
}

/** In the order of their first change: so many after this place, or those of these names, or all. */
export function changedEventFiles(
  sql: Sql,
  runId: string,
  { after = 0, limit, paths }: { after?: number; limit?: number; paths?: readonly string[] },
): ChangedFile[] {
  const rows = sql.all<{ path: string; n: number; place: number }>(
    `with counting as materialized (select * from ${counting}
         where ?4 is null or path in (select value from json_each(?4))),
       files as (select path, min(first) as place from counting group by path having min(first) > ?2
         order by place limit ?3)
     select path, n, place from files join counting using (path) order by place, first, n`,
    runId,
    after,
    limit ?? -1,
    paths === undefined ? null : JSON.stringify(paths),
  )
  return [...groupBy(rows, ({ path }) => path)].map(([path, own]) => ({
    ...{ path, first: own[0]?.place ?? 0 },
    events: own.map(({ n }) => n),
  }))
}

const eventsAtOnce = 100

/** One after the other, in the order of these numbers: however many they are, few are in memory. */
export function* eachEvidenceEvent(sql: Sql, numbers: readonly number[]): Generator<EventRow> {
  for (let at = 0; at < numbers.length; at += eventsAtOnce) {
    const some = numbers.slice(at, at + eventsAtOnce)
    const rows = sql.all<EventRow>(
      'select * from change_events where n in (select value from json_each(?))',
      JSON.stringify(some),
    )
    const byNumber = new Map(rows.map((row) => [row.n, row]))
    for (const n of some) yield byNumber.get(n) as EventRow
  }
}

/** Every counting event of a run. */
export function* eachCountingEvent(sql: Sql, runId: string): Generator<ChangeEvent> {
  const numbers = sql.all<{ n: number }>(`select n from ${counting} order by n`, runId)
  for (const { event } of eachEvidenceEvent(
    sql,
    numbers.map(({ n }) => n),
  ))
    yield JSON.parse(event) as ChangeEvent
}
