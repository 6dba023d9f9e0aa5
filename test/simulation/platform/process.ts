import { AsyncLocalStorage } from 'node:async_hooks'

const running = new AsyncLocalStorage<Process>()

/**
 * What dies as a whole: one instance of an actor, an agent, an OpenCode. Whatever a dead process was doing goes no further:
 * its timers do not fire, no answer reaches it, and what it still writes in the same moment is lost. So a crash is
 * possible at every await and around every commit, and costs one flag.
 */
export class Process {
  readonly name: string
  isAlive = true
  /** It died right after a commit: the platform stores the alarm together with what was committed. */
  mayArm = false
  readonly #mourners: (() => void)[] = []

  constructor(name: string) {
    this.name = name
  }

  /** The one whose code runs now, also after an await. */
  static get current(): Process | undefined {
    return running.getStore()
  }

  run<T>(work: () => T): T {
    return running.run(this, work)
  }

  onDeath(tell: () => void): void {
    this.#mourners.push(tell)
  }

  die(): void {
    if (!this.isAlive) return
    this.isAlive = false
    for (const tell of this.#mourners.splice(0)) tell()
  }
}
