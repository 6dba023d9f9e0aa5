// The events of this generation, numbered without gaps and kept on the disk until the control plane has stored them.
// While the disk is full they are kept in memory and written as soon as there is space, so the sandbox goes on working.
// The uplink appends, sends and acknowledges; after a restart the agent asks which parts of a turn were already told.

import type { AgentEventKind } from '../../src/contract/agent-events.ts'
import type { EventData } from '../../src/contract/events.ts'
import type { AgentEvent } from '../../src/contract/link.ts'
import { type Disk, nodeDisk } from './disk.ts'
import { Journal } from './journal.ts'
import { log, messageOf } from '../log.ts'

/** Tells an event of this sandbox: it is numbered, kept and sent. */
export type Emit = <K extends AgentEventKind>(kind: K, data: EventData<K>) => void

/** First line: the sequence before the first event of the file. */
type Line = { base: number } | AgentEvent

/** A long turn must not fill the disk: beyond this, what is acknowledged goes at once. */
const maxFileBytes = 64 * 1024 * 1024

const startKinds = new Set<string>(['tool.started'])
const endKinds = new Set<string>(['message.text', 'tool.completed', 'tool.failed', 'step.finished'])

export interface ToldParts {
  started: string[]
  ended: string[]
  /** The end of the turn itself. */
  over: boolean
}

export class Spool {
  readonly #journal: Journal<Line>
  /** Bytes of events that are not on the disk; null: all are. */
  #behindBytes: number | null = null
  #pending: AgentEvent[]
  #acked: number
  lastSeq: number

  constructor(path: string, disk: Disk = nodeDisk) {
    const { journal, lines } = Journal.open<Line>(path, disk)
    this.#journal = journal
    const events = lines.filter((line) => 'seq' in line)
    const head = lines.find((line) => 'base' in line)
    this.#acked = head?.base ?? (events[0]?.seq ?? 1) - 1
    this.#pending = withoutGaps(events, this.#acked + 1)
    this.lastSeq = this.#pending.at(-1)?.seq ?? this.#acked
    if (lines.length === 0) this.#keep({ base: 0 })
  }

  append<K extends AgentEventKind>(kind: K, data: EventData<K>, at: number): AgentEvent {
    const event: AgentEvent = { seq: this.lastSeq + 1, at, kind, data }
    this.lastSeq = event.seq
    this.#pending.push(event)
    this.#keep(event)
    return event
  }

  /** Throws only when too much is waiting for space on the disk. */
  #keep(line: Line): void {
    try {
      if (this.#behindBytes === null) this.#journal.append(line)
      else this.compact()
    } catch (error) {
      const bytes = (this.#behindBytes ?? 0) + JSON.stringify(line).length
      if (bytes > maxFileBytes) throw error
      if (this.#behindBytes === null) log('spool.not-written', { reason: messageOf(error) })
      this.#behindBytes = bytes
    }
  }

  /**
   * The control plane has everything up to `seq`. More than we ever sent means that our own disk was lost: go on from
   * there.
   */
  ack(seq: number): void {
    if (seq <= this.#acked) return
    this.#acked = seq
    const kept = this.#pending.findIndex((event) => event.seq > seq)
    this.#pending = kept === -1 ? [] : this.#pending.slice(kept)
    const isAhead = seq > this.lastSeq
    this.lastSeq = Math.max(this.lastSeq, seq)
    if (isAhead || this.#journal.bytes > maxFileBytes) this.compactIfRoom()
  }

  compactIfRoom(): void {
    try {
      this.compact()
    } catch (error) {
      log('spool.not-written', { reason: messageOf(error) })
    }
  }

  /** Not during a turn: until its end, the file is also the record of which parts were told (see `partsOf`). */
  compact(): void {
    this.#journal.replace([{ base: this.#acked }, ...this.#pending])
    this.#behindBytes = null
  }

  /**
   * To be asked before the first acknowledgement: the parts of a turn that the file has, so that none is told twice.
   */
  partsOf(turnId: string): ToldParts {
    const events = this.#pending.filter((event) => event.data['turnId'] === turnId)
    const partIds = (kinds: Set<string>) =>
      events.filter((event) => kinds.has(event.kind)).map((event) => String(event.data['partId']))
    const over = events.some(({ kind }) => kind === 'turn.ended')
    return { started: partIds(startKinds), ended: partIds(endKinds), over }
  }

  after(seq: number, maxItems: number): AgentEvent[] {
    const start = this.#pending.findIndex((event) => event.seq > seq)
    return start === -1 ? [] : this.#pending.slice(start, start + maxItems)
  }

  close(): void {
    this.#journal.close()
  }
}

/** The control plane takes events in order and waits for what is missing: where a line was lost, a notice stands. */
function withoutGaps(events: AgentEvent[], first: number): AgentEvent[] {
  const whole: AgentEvent[] = []
  let next = first
  for (const event of events) {
    for (; next < event.seq; next += 1) whole.push(lost(next, event.at))
    if (event.seq < next) continue
    whole.push(event)
    next += 1
  }
  return whole
}

const lost = (seq: number, at: number): AgentEvent => ({
  seq,
  at,
  kind: 'agent.notice',
  data: { message: `Event ${seq} of the sandbox could not be read again: it is lost` },
})
