import type { AgentEventKind } from '../src/contract/agent-events.ts'
import type { EventData } from '../src/contract/events.ts'
import type { AgentEvent } from '../src/contract/link.ts'
import { Journal } from './journal.ts'

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

/** The events of this generation, numbered without gaps, kept on disk until the control plane has stored them. */
export class Spool {
  readonly #journal: Journal<Line>
  #pending: AgentEvent[]
  #acked: number
  lastSeq: number

  constructor(path: string) {
    const { journal, lines } = Journal.open<Line>(path)
    this.#journal = journal
    const head = lines[0]
    this.#acked = head !== undefined && 'base' in head ? head.base : 0
    this.#pending = lines.filter((line) => 'seq' in line)
    this.lastSeq = this.#pending.at(-1)?.seq ?? this.#acked
    if (lines.length === 0) this.#journal.append({ base: 0 })
  }

  append<K extends AgentEventKind>(kind: K, data: EventData<K>, at: number): AgentEvent {
    const event: AgentEvent = { seq: this.lastSeq + 1, at, kind, data }
    this.#journal.append(event)
    this.lastSeq = event.seq
    this.#pending.push(event)
    return event
  }

  /** The control plane has everything up to `seq`. More than we ever sent means that our own disk was lost: go on from there. */
  ack(seq: number): void {
    if (seq <= this.#acked) return
    this.#acked = seq
    const kept = this.#pending.findIndex((event) => event.seq > seq)
    this.#pending = kept === -1 ? [] : this.#pending.slice(kept)
    if (seq > this.lastSeq) {
      this.lastSeq = seq
      this.compact()
    }
    if (this.#journal.bytes > maxFileBytes) this.compact()
  }

  /** Not during a turn: until its end, the file is also the record of which parts were told (see `partsOf`). */
  compact(): void {
    this.#journal.replace([{ base: this.#acked }, ...this.#pending])
  }

  /** To be asked before the first acknowledgement: the parts of a turn that the file has, so that none is told twice. */
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
