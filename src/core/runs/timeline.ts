import { sha256 } from '@noble/hashes/sha2.js'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js'
import type { RunEvent, RunEventKind } from '../../contract/run.ts'
import { addToOutbox } from '../outbox.ts'
import type { Sql } from '../ports.ts'
import { rowsThatFit } from './rows-that-fit.ts'

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

export function entryHash(entry: Omit<TimelineRow, 'hash'>): string {
  const { previous_hash, seq, at, kind, data } = entry
  return hashText(`${previous_hash}\n${seq}\n${at}\n${kind}\n${data}`)
}

/** What is signed of a head: whoever can rewrite the session's database cannot make the ledger agree. */
export const headText = (runId: string, seq: number, hash: string): string =>
  `timeline-head\n${runId}\n${seq}\n${hash}`

/** Append-only. The ledger receives the entry with its hash; the head is signed on its way there. */
export function appendRunEvent(
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
  const hash = entryHash({ seq, at: now, kind, data, previous_hash })
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
  addToOutbox(sql, now, 'run_event', {
    runId,
    seq,
    at: now,
    kind,
    data,
    previousHash: previous_hash,
    hash,
  })
  return seq
}

function lastEntry(sql: Sql, runId: string): { seq: number; hash: string } | undefined {
  return sql.all<{ seq: number; hash: string }>(
    'select seq, hash from run_events where run_id = ? order by seq desc limit 1',
    runId,
  )[0]
}

/** Oldest first. Empty only if there is nothing after `after`. */
export function listRunEvents(sql: Sql, runId: string, after: number, limit: number): RunEvent[] {
  const from = 'run_events where run_id = ? and seq > ?'
  const query = { from, by: 'seq', size: 'length(data)', limit }
  return rowsThatFit<TimelineRow>(sql, query, runId, after).map(toRunEvent)
}

/** The newest, in order. */
export function lastRunEvents(sql: Sql, runId: string, limit: number): RunEvent[] {
  const query = { from: 'run_events where run_id = ?', by: 'seq desc', size: 'length(data)', limit }
  return rowsThatFit<TimelineRow>(sql, query, runId).map(toRunEvent).toReversed()
}

const toRunEvent = (row: TimelineRow): RunEvent => ({
  seq: row.seq,
  at: row.at,
  kind: row.kind as RunEventKind,
  data: JSON.parse(row.data) as Record<string, unknown>,
  previousHash: row.previous_hash,
  hash: row.hash,
})

/** All of them, as they are stored. */
export function timelineRows(sql: Sql, runId: string): TimelineRow[] {
  return sql.all<TimelineRow>(
    'select seq, at, kind, data, previous_hash, hash from run_events where run_id = ? order by seq',
    runId,
  )
}

export const hashText = (text: string): string => bytesToHex(sha256(utf8ToBytes(text)))
