/** The time of one host in this process. It moves only if tests move it, and what is due on the way is done. */
export class TestClock {
  now = Date.now()
  readonly #alarms = new Map<string, { at: number; ring: () => Promise<void> }>()
  readonly #sleepers = new Set<{ at: number; wake: () => void }>()
  readonly #pending = new Set<Promise<unknown>>()

  arm(id: string, at: number | null, ring: () => Promise<void> = async () => {}): void {
    if (at === null) this.#alarms.delete(id)
    else this.#alarms.set(id, { at, ring })
  }

  /** Who gathers for a moment goes on at once. Anybody else waits for this clock, or for the real one. */
  sleep(ms: number): Promise<void> {
    if (ms <= 1000) return new Promise((resolve) => setImmediate(resolve))
    return new Promise((wake) => {
      this.#sleepers.add({ at: this.now + ms, wake })
      setTimeout(wake, ms).unref()
    })
  }

  /** `quiet` waits for it. */
  watch<T>(work: Promise<T>): Promise<T> {
    const done = work.catch(() => undefined).finally(() => this.#pending.delete(done))
    this.#pending.add(done)
    return work
  }

  /** As the port, and `quiet` waits for what is asked of it: servers and threads take real time. */
  watched<P extends object>(port: P): P {
    return new Proxy(port, {
      get: (target, name, receiver): unknown => {
        const value: unknown = Reflect.get(target, name, receiver)
        if (typeof value !== 'function') return value
        return (...args: unknown[]): unknown => {
          const answer: unknown = value.apply(target, args)
          return answer instanceof Promise ? this.watch(answer) : answer
        }
      },
    })
  }

  /** Until nothing is under way that ends by itself. */
  async quiet(): Promise<void> {
    for (let quietTurns = 0; quietTurns < 4;) {
      quietTurns = this.#pending.size === 0 ? quietTurns + 1 : 0
      const turn = new Promise(setImmediate)
      await (this.#pending.size === 0 ? turn : Promise.race(this.#pending))
    }
  }

  async live(ms: number): Promise<void> {
    const until = this.now + ms
    await this.quiet()
    for (let next = this.#next(until); next; next = this.#next(until)) {
      const [id, { at, ring }] = next
      this.#moveTo(Math.max(this.now, at))
      this.#alarms.delete(id)
      void ring()
      await this.quiet()
    }
    this.#moveTo(until)
    await this.quiet()
  }

  #next(until: number) {
    return [...this.#alarms]
      .filter(([, { at }]) => at <= until)
      .toSorted(([, a], [, b]) => a.at - b.at)[0]
  }

  #moveTo(at: number): void {
    this.now = at
    for (const sleeper of this.#sleepers) {
      if (sleeper.at > at) continue
      this.#sleepers.delete(sleeper)
      sleeper.wake()
    }
  }
}
