import type { CrashPointName } from './crash-points.ts'
import { type Deadline, takeDue } from './deadlines.ts'
import type { Clock, Log, Sql } from './ports.ts'

/** If this instance dies over the work of a deadline, and nobody comes by earlier, it comes back after this time. */
const leaseMs = 10_000

/** Whose deadlines they are: a session, an organisation. */
export interface AlarmOwner {
  /** False: there is no database yet, so nothing can be due. */
  readonly created: boolean
  readonly instance: string
  readonly ports: { sql: Sql; now: Clock; log: Log }
  alarmFired(): void
  /** Arms the next alarm. */
  commit(work: () => void): void
  crash?(name: CrashPointName): Promise<void> | undefined
}

/** The one alarm of an object, shared by all its deadlines. */
export class Alarm {
  readonly #owner: AlarmOwner
  readonly #work: (deadline: Deadline) => void | Promise<void>
  /** Deadlines that this instance is at work on: they come back while it takes long, and are left to it. */
  readonly #atWork = new Set<string>()

  constructor(owner: AlarmOwner, work: (deadline: Deadline) => void | Promise<void>) {
    this.#owner = owner
    this.#work = work
  }

  /** Never throws: the platform gives up on an alarm that fails a few times. */
  async fired(): Promise<void> {
    if (!this.#owner.created) return
    this.#owner.alarmFired()
    const { sql, now } = this.#owner.ports
    const { instance } = this.#owner
    const due = takeDue(sql, now(), instance, leaseMs).filter(
      ({ name, runner }) => !(runner === instance && this.#atWork.has(name)),
    )
    // Arms the next one before anything is done about these.
    this.#owner.commit(() => {})
    await Promise.all(due.map((deadline) => this.#run(deadline)))
  }

  async #run(deadline: Deadline): Promise<void> {
    this.#atWork.add(deadline.name)
    try {
      await this.#owner.crash?.('deadline.taken')
      await this.#work(deadline)
    } catch (error) {
      this.#owner.ports.log('warn', 'Deadline failed, will come again', {
        name: deadline.name,
        attempt: deadline.attempt,
        error: error instanceof Error ? error.message : String(error),
      })
    } finally {
      this.#atWork.delete(deadline.name)
    }
  }
}
