import type { SessionEvent } from '../../../contract/events.ts'
import type { RoomOf } from '../../actor/room.ts'
import type { Written } from '../../actor/writes.ts'
import type { Caller } from '../record/caller.ts'
import { guardSession } from '../record/guards.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { lastEventSeq, listEvents } from './events.ts'

export interface LogApi {
  /** What follows number `after`, in order. */
  events(caller: Caller, after: number, limit: number): Promise<SessionEvent[]>
}

/**
 * The session's event log: pages for whoever asks, and every new event once, in order, for whoever watches. Events are
 * appended by whoever decides something, in the same commit (`appendEvent`); this room publishes what was written.
 */
export class Log implements RoomOf<LogApi> {
  readonly api: LogApi = this
  readonly #kernel: SessionKernel
  #published: number
  #mayBeWatched = true

  constructor(kernel: SessionKernel) {
    this.#kernel = kernel
    this.#published = kernel.created ? lastEventSeq(kernel.ports.sql) : 0
  }

  async events(caller: Caller, after: number, limit: number): Promise<SessionEvent[]> {
    guardSession(this.#kernel, caller)
    return listEvents(this.#kernel.ports.sql, after, limit)
  }

  /** What is committed from now on is published; what was before is for the watcher to read. */
  readonly watchStarted = (): void => {
    this.#mayBeWatched = true
    this.#published = lastEventSeq(this.#kernel.ports.sql)
  }

  readonly written = (tables: Written): void => {
    // Asking the host costs as much as a statement, and nobody can have come meanwhile.
    if (!this.#mayBeWatched || !tables.has('events')) return
    const { sql, host } = this.#kernel.ports
    this.#mayBeWatched = host.watched()
    if (!this.#mayBeWatched) return
    for (;;) {
      const events = listEvents(sql, this.#published, 200)
      const last = events.at(-1)
      if (!last) return
      host.publish(events)
      this.#published = last.seq
    }
  }
}
