import { errorCodeOf } from '../../../contract/error.ts'
import { clearDeadline, setDeadline } from '../../actor/deadlines.ts'
import { jitteredBackoffMs } from '../../actor/jitter.ts'
import { addAction } from '../record/actions.ts'
import { recordEnding } from './endings.ts'
import type { OrganisationKernel } from '../record/kernel.ts'
import { killSwitchAt, killSwitchReason } from './switches.ts'
import type { Reconciler } from './reconciler.ts'
import {
  countLiveReservations,
  findReservation,
  liveReservations,
  type ReservationRow,
} from './reservations.ts'

/** A session may save its sandbox for so long; the sandbox stands still meanwhile. */
const saveMs = 20_000
/** A session that has not stopped its sandbox after this time is not waited for. */
const patienceMs = saveMs + 10_000
const stopAtOnce = 20

/**
 * Stops every sandbox of the organisation while a kill switch is on: its own or the deployment's. Each session is told
 * to halt its sandbox, with some seconds to save it; if a session is gone or stays silent, the provider is told
 * directly. Runs at the deadline `kill`, which comes back until the provider has confirmed the end of each sandbox, or
 * until the switch is lifted. The firewall's room makes it and hands it the deadline.
 */
export class KillSwitch {
  readonly #kernel: OrganisationKernel
  readonly #reconciler: Reconciler

  constructor(kernel: OrganisationKernel, reconciler: Reconciler) {
    this.#kernel = kernel
    this.#reconciler = reconciler
  }

  async onDeadline(attempt: number): Promise<void> {
    const reason = this.#kernel.read(killSwitchReason)
    const since = this.#kernel.read(killSwitchAt)
    if (reason !== null) await this.#stopAll(reason)
    const clean = reason === null || (await this.#reconciler.look())
    this.#kernel.commit((sql, now) => {
      const isOver =
        killSwitchReason(sql) === null || (clean && countLiveReservations(sql, now) === 0)
      if (isOver) clearDeadline(sql, 'kill')
      // Turned on anew meanwhile: that has set its own deadline.
      else if (killSwitchAt(sql) === since)
        setDeadline(sql, 'kill', now + jitteredBackoffMs(attempt), attempt + 1)
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
      const isPatient = ports.now() - this.#kernel.read(killSwitchAt) < patienceMs
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
      const order = { reason, actor: 'kill-switch', saveMs } as const
      await ports.session(sessionId).sandbox.halt({ organisationId: ports.id, generation }, order)
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
      recordEnding(this.#kernel.ports, sql, now, row, { outcome: 'killed', reason })
      addAction(sql, now, { action: 'sandbox.killed', actor: 'kill-switch', sandbox: row, reason })
    })
  }
}
