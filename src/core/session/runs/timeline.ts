import type { RunEvent, RunEventKind } from '../../../contract/run.ts'
import { addToOutbox, isName } from '../../actor/outbox.ts'
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

const columns = 'seq, at, kind, data, previous_hash, hash'

/** What the first entry of a run points to. */
export const firstHash = (runId: string): string => hashText(`gantry timeline\n${runId}`)

export function timelineHash(entry: Omit<TimelineRow, 'hash'>): string {
  const { previous_hash, seq, at, kind, data } = entry
  return hashText(`${previous_hash}\n${seq}\n${at}\n${kind}\n${data}`)
}

/** What is signed of a head: whoever can rewrite the session's database cannot make the ledger agree. */
export const headText = (runId: string, seq: number, hash: string): string =>
  `timeline-head\n${runId}\n${seq}\n${hash}`

/** Append-only. The ledger receives the entry with its hash; the head is signed on its way there. */
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
  const entry = { seq, at: now, kind, data, previous_hash, hash }
  addToOutbox(sql, now, 'run_event', ledgerEntry(runId, entry))
  return seq
}

const ledgerEntry = (runId: string, { previous_hash, ...entry }: TimelineRow) => ({
  runId,
  ...entry,
  previousHash: previous_hash,
})

/** Every entry of every timeline, to be told anew. Named only: together they may be far larger than a batch. */
export function nameTimelines(sql: Sql, now: number): void {
  sql.run(
    `insert into outbox (kind, payload, created_at)
     select 'run_event', json_array(run_id, seq), ? from run_events order by run_id, seq`,
    now,
  )
}

/** Gives named entries their payload. */
export function describeTimeline(sql: Sql, rows: readonly OutboxRow[]): OutboxRow[] {
  return rows.map((row) => {
    if (row.kind !== 'run_event' || !isName(row)) return row
    const [runId, seq] = JSON.parse(row.payload) as [string, number]
    const [entry] = sql.all<TimelineRow>(
      `select ${columns} from run_events where run_id = ? and seq = ?`,
      runId,
      seq,
    )
    return { ...row, payload: JSON.stringify(entry ? ledgerEntry(runId, entry) : {}) }
  })
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
