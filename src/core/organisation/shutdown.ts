import { type Refusal, organisationApiRefusal } from './record/api.ts'
import type { OrganisationKernel } from './record/kernel.ts'
import { deploymentId } from './record/ports.ts'
import { liveReservations } from './firewall/reservations.ts'

const reason = 'Gantry is being stopped'
/** For so long after the last call no place is given. Kept in memory only: the next process gives places at once. */
const closedMs = 60_000
const askAgainMs = 15_000
/** A session goes on saving after a restart, from the files that its sandbox has left. */
const saveMs = 30 * 60_000
const atOnce = 20

/**
 * Puts every sandbox to sleep because the stack is about to end: each session is told to save and halt, and no place is
 * given meanwhile. Whoever stops the stack calls it again until nothing is left. In the deployment's object it asks all
 * organisations.
 */
export class Shutdown {
  readonly #kernel: OrganisationKernel
  #closedUntil = -Infinity

  constructor(kernel: OrganisationKernel) {
    this.#kernel = kernel
  }

  /** Else what waits would get a new sandbox as soon as its old one sleeps. */
  refusal(): Refusal | null {
    const now = this.#kernel.ports.now()
    return now < this.#closedUntil ? organisationApiRefusal(reason, now + askAgainMs) : null
  }

  /** How many are still there. */
  async putToSleep(): Promise<number> {
    const { ports } = this.#kernel
    if (ports.id === deploymentId) return this.#tellMembers()
    this.#closedUntil = ports.now() + closedMs
    await inPortions(this.#owned(), ({ sessionId, generation }) =>
      this.#halt(sessionId, generation),
    )
    return this.#owned().length
  }

  /** What has no session to save it is left to the reconciler. */
  #owned() {
    return this.#kernel.read(liveReservations).filter(({ orphanSince }) => orphanSince === null)
  }

  async #halt(sessionId: string, generation: number): Promise<void> {
    const { ports } = this.#kernel
    const order = { reason, actor: 'shutdown', saveMs } as const
    try {
      await ports.session(sessionId).sandbox.halt({ organisationId: ports.id, generation }, order)
    } catch (error) {
      ports.log('warn', 'A session did not hear of the end', { sessionId, error: String(error) })
    }
  }

  async #tellMembers(): Promise<number> {
    const { ports } = this.#kernel
    const members = this.#kernel.read((sql) =>
      sql.all<{ id: string }>('select organisation_id as id from members order by organisation_id'),
    )
    const left = await inPortions(members, ({ id }) =>
      ports.organisation(id).deployment.putToSleep(),
    )
    return left.reduce((sum, count) => sum + count, 0)
  }
}

async function inPortions<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const done: R[] = []
  for (let from = 0; from < items.length; from += atOnce)
    done.push(...(await Promise.all(items.slice(from, from + atOnce).map(work))))
  return done
}
