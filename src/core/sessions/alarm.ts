import { type Deadline, takeDue } from '../deadlines.ts'
import type { Kernel } from './kernel.ts'

/** If this instance dies over the work of a deadline, and nobody comes by earlier, it comes back after this time. */
const leaseMs = 10_000

/** The one alarm of a session, shared by all its deadlines. */
export class Alarm {
  readonly #kernel: Kernel
  readonly #work: (deadline: Deadline) => void | Promise<void>
  /** Deadlines that this instance is at work on: they come back while it takes long, and are left to it. */
  readonly #atWork = new Set<string>()

  constructor(kernel: Kernel, work: (deadline: Deadline) => void | Promise<void>) {
    this.#kernel = kernel
    this.#work = work
  }

  /** Never throws: the platform gives up on an alarm that fails a few times. */
  async fired(): Promise<void> {
    if (!this.#kernel.created) return
    this.#kernel.alarmFired()
    const { sql, now } = this.#kernel.ports
    const { instance } = this.#kernel
    const due = takeDue(sql, now(), instance, leaseMs).filter(
      ({ name, runner }) => !(runner === instance && this.#atWork.has(name)),
    )
    // Arms the next one before anything is done about these.
    this.#kernel.commit(() => {})
    await Promise.all(due.map((deadline) => this.#run(deadline)))
  }

  async #run(deadline: Deadline): Promise<void> {
    this.#atWork.add(deadline.name)
    try {
      await this.#kernel.crash('deadline.taken')
      await this.#work(deadline)
    } catch (error) {
      this.#kernel.ports.log('warn', 'Deadline failed, will come again', {
        name: deadline.name,
        attempt: deadline.attempt,
        error: error instanceof Error ? error.message : String(error),
      })
    } finally {
      this.#atWork.delete(deadline.name)
    }
  }
}
