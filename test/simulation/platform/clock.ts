import type { Process } from './process.ts'

export interface Timer {
  at: number
  /** Later timers of the same time fire later. */
  readonly order: number
  readonly owner: Process | null
  readonly work: () => void
  /** For those that come again and again. */
  readonly everyMs: number | null
}

/** Eight in the morning, UTC: nothing of a story falls on a day's end by accident. */
const begin = Date.UTC(2026, 10, 16, 8)

/** The one time of a world. It moves only when a step says so; timers fire in order, those of the dead never. */
export class Clock {
  now = begin
  #timers: Timer[] = []
  #order = 0

  after(owner: Process | null, ms: number, work: () => void, everyMs: number | null = null): Timer {
    const at = this.now + Math.ceil(Math.max(0, ms || 0))
    const timer: Timer = { at, order: this.#order++, owner, work, everyMs }
    this.#timers.push(timer)
    return timer
  }

  cancel(timer: Timer | null | undefined): void {
    if (timer) this.#timers = this.#timers.filter((other) => other !== timer)
  }

  /** What fires next, if it is due by then. The clock stands at its time, or later if it was late. */
  takeDue(until: number): Timer | null {
    let next: Timer | null = null
    for (const timer of this.#timers)
      if (!next || timer.at < next.at || (timer.at === next.at && timer.order < next.order))
        if (timer.owner?.isAlive !== false) next = timer
    if (!next || next.at > until) return null
    this.now = Math.max(this.now, next.at)
    if (next.everyMs === null) this.cancel(next)
    else next.at = this.now + Math.max(1, next.everyMs)
    return next
  }

  forget(owner: Process): void {
    this.#timers = this.#timers.filter((timer) => timer.owner !== owner)
  }
}
