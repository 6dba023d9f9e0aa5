import type { TimelineCheck } from '../../contract/run.ts'
import { entryHash, firstHash, headText, type TimelineRow } from './timeline.ts'

export interface RecordedHead {
  seq: number
  hash: string
  signature: string
  at: number
}

/** Names every entry whose bytes, number or place is not what was appended, and what the signed head says of the end. */
export function checkTimeline(
  runId: string,
  rows: readonly TimelineRow[],
  head: RecordedHead | null,
  isSigned: (text: string, signature: string) => boolean,
): TimelineCheck {
  const problems = [...checkChain(runId, rows), ...checkHead(runId, rows, head, isSigned)]
  return {
    ok: problems.length === 0,
    entries: rows.length,
    problems,
    head: head && { seq: head.seq, hash: head.hash, recordedAt: head.at },
  }
}

type Problem = TimelineCheck['problems'][number]

function checkChain(runId: string, rows: readonly TimelineRow[]): Problem[] {
  const problems: Problem[] = []
  let previous = firstHash(runId)
  rows.forEach((row, index) => {
    const problem = problemOf(row, index + 1, previous)
    if (problem) problems.push({ seq: row.seq, problem })
    previous = row.hash
  })
  return problems
}

function problemOf(row: TimelineRow, seq: number, previous: string): string | null {
  if (row.seq !== seq) return `Expected entry ${seq}: an entry is missing or out of order`
  if (row.previous_hash !== previous) return 'Does not follow the entry before it'
  if (entryHash(row) !== row.hash) return 'The content is not what was hashed when it was appended'
  return null
}

function checkHead(
  runId: string,
  rows: readonly TimelineRow[],
  head: RecordedHead | null,
  isSigned: (text: string, signature: string) => boolean,
): Problem[] {
  if (!head) return []
  if (!isSigned(headText(runId, head.seq, head.hash), head.signature))
    return [{ seq: null, problem: 'The signature of the head in the ledger is not valid' }]
  const entry = rows[head.seq - 1]
  if (!entry)
    return [{ seq: null, problem: `The timeline ends before entry ${head.seq} of its signed head` }]
  return entry.hash === head.hash
    ? []
    : [{ seq: entry.seq, problem: 'Differs from the signed head in the ledger' }]
}
