/**
 * Those who wait until a look at the tables finds what they wait for. Every wait has an end: what the last look found is
 * returned when its time is over. Rooms with long polls (turns, operations, executions, eval runs) have one each, and wake it
 * when their tables were written.
 */
export class Waiters {
  readonly #waiting = new Set<() => void>()

  /** What the last look found: once it is done, or when the time is over. */
  async until<T>(look: () => { done: boolean; value: T }, timeout: Promise<void>): Promise<T> {
    let isLate = false
    const late = timeout.then(() => {
      isLate = true
    })
    for (;;) {
      const { done, value } = look()
      if (done || isLate) return value
      let wake = () => {}
      const changed = new Promise<void>((resolve) => (wake = resolve))
      this.#waiting.add(wake)
      await Promise.race([changed, late])
      this.#waiting.delete(wake)
    }
  }

  wake(): void {
    for (const wake of this.#waiting) wake()
  }
}
