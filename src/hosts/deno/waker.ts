// Wakes actors at their deadlines: it has a timer for each actor that is open, and one timer and the wake index for all
// that sleep. At a start it looks after those that the last process left awake. What cannot be opened or written is
// tried again after a minute. sessions.ts owns it; actors arm their alarm through it.

import { nextDeadline } from '../../core/actor/deadlines.ts'
import { hasClimbedLadder } from '../../core/actor/ladder.ts'
import type { Clock } from '../../core/ports.ts'
import type { SqlFile } from './node-sqlite.ts'
import type { WakeIndex } from './wake-index.ts'

/** Timers hold no more; a deadline that is further away is looked at again then. */
const maxTimerMs = 2 ** 31 - 1
/** After a long stop many may be due: requests get in between. */
const wakeAtOnce = 50
const wakePauseMs = 50
/** What cannot be opened or written now (a full disk, a newer release's database) is tried again after this time. */
const retryMs = 60_000

interface WakerOptions {
  index: WakeIndex
  now: Clock
  /** Opens it, which is enough to look after what the process before left. */
  open(id: string): Promise<void>
  runDue(id: string): Promise<void>
  onFailure(id: string, error: unknown): void
}

export class Waker {
  readonly #options: WakerOptions
  /** What only was read has kept its place in the index. */
  readonly #awake = new Set<string>()
  readonly #alarms = new Map<string, ReturnType<typeof setTimeout>>()
  #waking: ReturnType<typeof setTimeout> | undefined
  #wakingAt = Infinity
  #closed = false

  constructor(options: WakerOptions) {
    this.#options = options
  }

  arm(id: string, at: number | null): void {
    clearTimeout(this.#alarms.get(id))
    this.#alarms.delete(id)
    if (at === null) return
    const fire = () => {
      this.#alarms.delete(id)
      this.#runDue(id)
    }
    this.#alarms.set(id, setTimeout(fire, this.#timerMs(at)))
  }

  markAwake(id: string): void {
    this.#options.index.awake(id)
    this.#awake.add(id)
  }

  putToSleep(id: string, sql: SqlFile, linked: boolean): void {
    this.arm(id, null)
    if (!this.#awake.delete(id)) return
    try {
      const at = sql.exists() && hasClimbedLadder(sql) ? nextDeadline(sql) : null
      this.#options.index.asleep(id, at, linked)
      this.#armWaking(at)
    } catch (error) {
      // Still marked awake: the next process looks at it.
      this.#options.onFailure(id, error)
    }
  }

  /** It is erased. */
  forget(id: string): void {
    this.arm(id, null)
    this.#awake.delete(id)
    this.#options.index.asleep(id, null, false)
  }

  /** One after the other: requests get in between. */
  async wakeLeftBehind(): Promise<void> {
    for (const id of this.#options.index.leftBehind()) {
      await new Promise((resolve) => setTimeout(resolve, 0))
      if (this.#closed) return
      this.#awake.add(id)
      await this.#options.open(id).catch((error: unknown) => this.#options.onFailure(id, error))
      this.#runDue(id)
    }
    this.#wakeDue()
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#waking)
  }

  #runDue(id: string): void {
    if (this.#closed) return
    this.#options.runDue(id).catch((error: unknown) => {
      this.#options.onFailure(id, error)
      // Nobody else would come back: its own alarm is armed only by what it writes.
      if (!this.#closed && !this.#alarms.has(id)) this.arm(id, this.#options.now() + retryMs)
    })
  }

  #armWaking(at: number | null): void {
    if (this.#closed || at === null || at >= this.#wakingAt) return
    this.#wakingAt = at
    clearTimeout(this.#waking)
    this.#waking = setTimeout(() => this.#wakeDue(), this.#timerMs(at))
  }

  /** By a timer: whatever fails here must not end the process. */
  #wakeDue(): void {
    this.#wakingAt = Infinity
    try {
      this.#wakeSome()
    } catch (error) {
      this.#options.onFailure('index', error)
      this.#armWaking(this.#options.now() + retryMs)
    }
  }

  #wakeSome(): void {
    const { index, now } = this.#options
    for (const id of index.due(now(), wakeAtOnce)) {
      // Marked before it is opened: one that cannot be opened is not tried for ever.
      this.markAwake(id)
      this.#runDue(id)
    }
    const next = index.next()
    if (next !== null) this.#armWaking(Math.max(next, now() + wakePauseMs))
  }

  #timerMs(at: number): number {
    return Math.min(maxTimerMs, Math.max(0, at - this.#options.now()))
  }
}
