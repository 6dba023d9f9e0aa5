import { errorCodeOf } from '../../contract/error.ts'
import { backoffMs, clearDeadline, setDeadline } from '../deadlines.ts'
import { addAction } from './actions.ts'
import { endSandbox } from './endings.ts'
import type { OrganisationKernel } from './kernel.ts'
import { killedAt, killReason } from './kill-switch.ts'
import type { Reconciler } from './reconciler.ts'
import {
  countLive,
  findReservation,
  liveReservations,
  type ReservationRow,
} from './reservations.ts'

/** A session stops its sandbox in order; one that has not after this time is not waited for. */
const patienceMs = 30_000
const stopAtOnce = 20

/** Stops everything while a switch is on. Its deadline stays until the end of each sandbox is confirmed. */
export class KillDesk {
  readonly #kernel: OrganisationKernel
  readonly #reconciler: Reconciler

  constructor(kernel: OrganisationKernel, reconciler: Reconciler) {
    this.#kernel = kernel
    this.#reconciler = reconciler
  }

  async onDeadline(attempt: number): Promise<void> {
    const reason = this.#kernel.read(killReason)
    const since = this.#kernel.read(killedAt)
    if (reason !== null) await this.#stopAll(reason)
    const clean = reason === null || (await this.#reconciler.look())
    this.#kernel.commit((sql, now) => {
      const isOver = killReason(sql) === null || (clean && countLive(sql, now) === 0)
      if (isOver) clearDeadline(sql, 'kill')
      // Turned on anew meanwhile: that has set its own deadline.
      else if (killedAt(sql) === since)
        setDeadline(sql, 'kill', now + backoffMs(attempt), attempt + 1)
    })
  }

  async #stopAll(reason: string): Promise<void> {
    const rows = this.#kernel.read(liveReservations)
    for (let from = 0; from < rows.length; from += stopAtOnce) {
      const some = rows.slice(from, from + stopAtOnce)
      await Promise.all(some.map((row) => this.#stop(row, reason)))
    }
  }

  /** Its session says when it has ended. If that is gone or silent, the provider is told directly. */
  async #stop(row: ReservationRow, reason: string): Promise<void> {
    const { ports } = this.#kernel
    // The reconciler stops what has no session to ask.
    if (row.orphanSince !== null) return
    try {
      const heard = await this.#halt(row, reason)
      const isPatient = ports.now() - this.#kernel.read(killedAt) < patienceMs
      if (heard && isPatient) return
      await this.#stopHere(row, reason)
    } catch (error) {
      const fields = { sessionId: row.sessionId, error: String(error) }
      ports.log('warn', 'Cannot stop a sandbox, will try again', fields)
    }
  }

  /** False: there is no such session. */
  async #halt({ sessionId, generation }: ReservationRow, reason: string): Promise<boolean> {
    const { ports } = this.#kernel
    try {
      await ports.session(sessionId).haltSandbox({ organisationId: ports.id, generation }, reason)
      return true
    } catch (error) {
      if (errorCodeOf(error) === 'not_found') return false
      const fields = { sessionId, error: String(error) }
      ports.log('warn', 'A session did not hear of the kill switch', fields)
      return true
    }
  }

  async #stopHere({ sessionId, generation, provider }: ReservationRow, reason: string) {
    const { ports } = this.#kernel
    const found = await ports.provider(provider, ports.id)
    if (!found) throw new Error(`No sandbox provider "${provider}" is configured`)
    await found.stop(sessionId, generation)
    this.#kernel.commit((sql, now) => {
      const row = findReservation(sql, sessionId, generation)
      if (!row || row.endedAt !== null) return
      endSandbox(this.#kernel, sql, now, row, { outcome: 'killed', reason })
      addAction(sql, now, { action: 'sandbox.killed', actor: 'kill-switch', sandbox: row, reason })
    })
  }
}
