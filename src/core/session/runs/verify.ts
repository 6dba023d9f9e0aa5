import type { TimelineCheck } from '../../../contract/run.ts'
import { timelineHash, firstHash, headText, type TimelineRow } from './timeline.ts'

export interface RecordedHead {
  seq: number
  hash: string
  signature: string
  at: number
}

/** Named one by one; of a timeline that is wrong throughout these are enough. */
const maxProblems = 1000

type Problem = TimelineCheck['problems'][number]

/**
 * Names every entry whose bytes, number or place is not what was appended, and what the signed head says of the end.
 * Entries are given one by one, in order, and are not kept: a timeline may be larger than memory.
 */
export class TimelineChecker {
  readonly #runId: string
  readonly #head: RecordedHead | null
  readonly #problems: Problem[] = []
  #entries = 0
  #previous: string
  /** The entry that the head is of. */
  #signed: { seq: number; hash: string } | null = null

  constructor(runId: string, head: RecordedHead | null) {
    this.#runId = runId
    this.#head = head
    this.#previous = firstHash(runId)
  }

  add(row: TimelineRow): void {
    this.#entries += 1
    const problem = problemOf(row, this.#entries, this.#previous)
    if (problem && this.#problems.length < maxProblems)
      this.#problems.push({ seq: row.seq, problem })
    this.#previous = row.hash
    if (this.#entries === this.#head?.seq) this.#signed = { seq: row.seq, hash: row.hash }
  }

  result(isSigned: (text: string, signature: string) => boolean): TimelineCheck {
    const head = this.#head
    const problems = [...this.#problems, ...this.#checkHead(isSigned)]
    return {
      ok: problems.length === 0,
      entries: this.#entries,
      problems,
      head: head && { seq: head.seq, hash: head.hash, recordedAt: head.at },
    }
  }

  #checkHead(isSigned: (text: string, signature: string) => boolean): Problem[] {
    const head = this.#head
    if (!head) return []
    if (!isSigned(headText(this.#runId, head.seq, head.hash), head.signature))
      return [{ seq: null, problem: 'The signature of the head in the ledger is not valid' }]
    const entry = this.#signed
    if (!entry)
      return [
        { seq: null, problem: `The timeline ends before entry ${head.seq} of its signed head` },
      ]
    return entry.hash === head.hash
      ? []
      : [{ seq: entry.seq, problem: 'Differs from the signed head in the ledger' }]
  }
}

function problemOf(row: TimelineRow, seq: number, previous: string): string | null {
  if (row.seq !== seq) return `Expected entry ${seq}: an entry is missing or out of order`
  if (row.previous_hash !== previous) return 'Does not follow the entry before it'
  if (timelineHash(row) !== row.hash)
    return 'The content is not what was hashed when it was appended'
  return null
}
