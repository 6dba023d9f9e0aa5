import type { RunEvent, RunEventKind } from '../../../contract/run.ts'
import { isName, nameInOutbox, outboxIdentity } from '../../actor/outbox.ts'
import { hashText } from '../../hash.ts'
import type { OutboxRow, Sql } from '../../ports.ts'
import { pageThatFits } from '../../actor/paging.ts'

export interface TimelineRow {
  seq: number
  at: number
  kind: string
  data: string
  previous_hash: string
  hash: string
}

/** What the first entry of a run points to. */
export const firstHash = (runId: string): string => hashText(`gantry timeline\n${runId}`)

export function timelineHash(entry: Omit<TimelineRow, 'hash'>): string {
  const { previous_hash, seq, at, kind, data } = entry
  return hashText(`${previous_hash}\n${seq}\n${at}\n${kind}\n${data}`)
}

/** What is signed of a head: whoever can rewrite the session's database cannot make the ledger agree. */
export const headText = (runId: string, seq: number, hash: string): string =>
  `timeline-head\n${runId}\n${seq}\n${hash}`

/** Append-only. The ledger receives the entry with its hash, as it is kept here; the head is signed on its way there. */
export function appendToTimeline(
  sql: Sql,
  now: number,
  runId: string,
  kind: RunEventKind,
  value: Record<string, unknown>,
): number {
  const last = lastEntry(sql, runId)
  const data = JSON.stringify(value)
  const seq = (last?.seq ?? 0) + 1
  const previous_hash = last?.hash ?? firstHash(runId)
  const hash = timelineHash({ seq, at: now, kind, data, previous_hash })
  sql.run(
    'insert into run_events (run_id, seq, at, kind, data, previous_hash, hash) values (?, ?, ?, ?, ?, ?, ?)',
    runId,
    seq,
    now,
    kind,
    data,
    previous_hash,
    hash,
  )
  nameInOutbox(sql, now, 'run_event', JSON.stringify([runId, seq]))
  return seq
}

/** Every entry of every timeline, to be told anew. */
export function nameTimelines(sql: Sql, now: number): void {
  sql.run(
    `insert into outbox (kind, payload, created_at)
     select 'run_event', json_array(run_id, seq), ? from run_events order by run_id, seq`,
    now,
  )
}

interface Told {
  runId: string
  seq: number
  hash: string
}

/**
 * Gives named entries their payload, and each entry the signature of the head that it is. SQLite puts them together: they
 * are large, and nobody looks into them here. Rows of earlier releases bring their payload themselves.
 */
export function describeTimeline(
  sql: Sql,
  rows: readonly OutboxRow[],
  sign: (text: string) => string,
): OutboxRow[] {
  const named = rows.filter(isNamedEntry).map(({ payload }) => payload)
  const entries = named.length === 0 ? new Map<string, string>() : payloadsOf(sql, named, sign)
  return rows.map((row) => {
    if (outboxIdentity(row).kind !== 'run_event') return row
    // An entry is never deleted before its session; if it were, its row would become a dead letter.
    if (isNamedEntry(row)) return { ...row, payload: entries.get(row.payload) ?? '{}' }
    return { ...row, payload: signed(row.payload, JSON.parse(row.payload) as Told, sign) }
  })
}

const isNamedEntry = (row: OutboxRow) => row.kind === 'run_event' && isName(row)

function payloadsOf(
  sql: Sql,
  names: string[],
  sign: (text: string) => string,
): Map<string, string> {
  const entries = sql.all<Told & { key: number; payload: string }>(
    `select key, run_id as runId, seq, hash, json_object('runId', run_id, 'seq', seq, 'at', at,
       'kind', kind, 'data', data, 'hash', hash, 'previousHash', previous_hash) as payload
     from json_each(?) join run_events on run_id = value ->> 0 and seq = value ->> 1`,
    `[${names.join(',')}]`,
  )
  return new Map(
    entries.map((entry) => [names[entry.key] ?? '', signed(entry.payload, entry, sign)]),
  )
}

/** The payload is a JSON object. */
function signed(payload: string, { runId, seq, hash }: Told, sign: (text: string) => string) {
  const signature = JSON.stringify(sign(headText(runId, seq, hash)))
  return `${payload.slice(0, -1)},"signature":${signature}}`
}

function lastEntry(sql: Sql, runId: string): { seq: number; hash: string } | undefined {
  return sql.all<{ seq: number; hash: string }>(
    'select seq, hash from run_events where run_id = ? order by seq desc limit 1',
    runId,
  )[0]
}

/** Oldest first. Empty only if there is nothing after `after`. */
export function listTimeline(sql: Sql, runId: string, after: number, limit: number): RunEvent[] {
  const from = 'run_events where run_id = ? and seq > ?'
  const query = { from, by: 'seq', size: 'length(data)', limit }
  return pageThatFits<TimelineRow>(sql, query, runId, after).map(toRunEvent)
}

/** The newest, in order. */
export function lastOfTimeline(sql: Sql, runId: string, limit: number): RunEvent[] {
  const query = { from: 'run_events where run_id = ?', by: 'seq desc', size: 'length(data)', limit }
  return pageThatFits<TimelineRow>(sql, query, runId).map(toRunEvent).toReversed()
}

const toRunEvent = (row: TimelineRow): RunEvent => ({
  seq: row.seq,
  at: row.at,
  kind: row.kind as RunEventKind,
  data: JSON.parse(row.data) as Record<string, unknown>,
  previousHash: row.previous_hash,
  hash: row.hash,
})

/** As they are stored: as many after `after`, and not beyond `last`, as fit. */
export function timelineRows(sql: Sql, runId: string, after: number, last: number): TimelineRow[] {
  const from = 'run_events where run_id = ? and seq > ? and seq <= ?'
  const query = { from, by: 'seq', size: 'length(data)', limit: 1000 }
  return pageThatFits<TimelineRow>(sql, query, runId, after, last)
}

export function timelineLength(sql: Sql, runId: string): number {
  return lastEntry(sql, runId)?.seq ?? 0
}
