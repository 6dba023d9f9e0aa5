import type { ProviderName } from '../../../contract/sandbox.ts'
import { clearDeadline, setDeadline } from '../../actor/deadlines.ts'
import type { SandboxInfo, SandboxProvider, Sql } from '../../ports.ts'
import { addAction } from '../record/actions.ts'
import { recordEnding } from './endings.ts'
import type { OrganisationKernel } from '../record/kernel.ts'
import { killSwitchReason } from './switches.ts'
import { limitPrices } from './limits.ts'
import {
  endReservation,
  findReservation,
  reservedSince,
  insertReservation,
  liveReservations,
  markReservationMissing,
  overdueReservations,
  pruneReservations,
  reopenReservation,
  type ReservationRow,
  reservedProviders,
} from './reservations.ts'

/** A provider's list may be a little behind its own answers. */
const settleMs = 30_000
/** Before that one that never connected may still be on its way: queued, or its creation is tried again. */
const bootPatienceMs = 10 * 60_000
/** A creation that was under way when its session gave up may still come true. */
const quietMs = 30 * 60_000

type Names = Pick<SandboxInfo, 'sessionId' | 'generation'>

/**
 * Compares what the providers run with what is reserved. A sandbox without a reservation is an orphan: it takes a place
 * from then on and is stopped after a grace period. A reservation whose sandbox the provider does not know any more is
 * ended, and its session is told. Nothing is stopped or ended because of one look alone, and if a provider cannot be
 * asked, nothing changes.
 * Runs at the deadline `reconcile` while places are held, and some time after; the kill switch calls `look` as well.
 */
export class Reconciler {
  readonly #kernel: OrganisationKernel

  constructor(kernel: OrganisationKernel) {
    this.#kernel = kernel
  }

  async onDeadline(): Promise<void> {
    this.#kernel.commit((sql, now) => this.#endOverdue(sql, now))
    const clean = await this.look()
    this.#kernel.commit((sql, now) => {
      pruneReservations(sql, now)
      const { reconcileSeconds } = this.#kernel.ports.firewall
      if (clean && !reservedSince(sql, now - quietMs)) clearDeadline(sql, 'reconcile')
      else setDeadline(sql, 'reconcile', now + reconcileSeconds * 1000)
    })
  }

  /** True: every provider has answered, and nothing runs there without a reservation. */
  async look(): Promise<boolean> {
    let clean = true
    for (const name of this.#kernel.read(reservedProviders)) {
      try {
        clean = (await this.#compare(name)) && clean
      } catch (error) {
        clean = false
        this.#warn('Cannot compare with the provider, will try again', name, error)
      }
    }
    return clean
  }

  async #compare(name: ProviderName): Promise<boolean> {
    const { ports } = this.#kernel
    const found = await ports.provider(name, ports.id)
    if (!found) throw new Error(`No sandbox provider "${name}" is configured`)
    const listed = await found.list(ports.id)
    const { due, waiting, missing } = this.#kernel.commit((sql, now) => {
      this.#noteOrphans(sql, now, name, listed)
      this.#noteMissing(sql, now, name, listed)
      return this.#decide(sql, now, name)
    })
    const stopped = await Promise.all(due.map((row) => this.#stopOrphan(found, row)))
    await Promise.all(missing.map((row) => this.#checkMissing(found, row)))
    return waiting === 0 && stopped.every(Boolean)
  }

  #noteOrphans(sql: Sql, now: number, provider: ProviderName, listed: SandboxInfo[]): void {
    for (const info of listed) {
      const row = findReservation(sql, info.sessionId, info.generation)
      if (row && (isHeld(row, now) || isSettling(row, now))) continue
      if (row) reopenReservation(sql, now, row)
      else this.#adopt(sql, now, provider, info)
      const reason = row ? `It runs, though it was ${row.outcome}` : 'Nobody reserved it'
      const sandbox = { ...info, provider }
      addAction(sql, now, { action: 'orphan.noted', actor: 'reconciler', sandbox, reason })
    }
    for (const row of ofProvider(liveReservations(sql, now), provider)) {
      if (row.orphanSince === null || isAmong(listed, row)) continue
      this.#endOrphan(sql, now, row, 'orphan.gone', 'The provider no longer lists it')
    }
  }

  /** From here on it takes a place and its time is booked, as for everything that runs. */
  #adopt(sql: Sql, now: number, provider: ProviderName, { sessionId, generation }: Names): void {
    const price = limitPrices(this.#kernel.ports.firewall)[provider]
    const row = { sessionId, generation, provider, project: '', price, until: null, orphan: true }
    insertReservation(sql, now, row)
  }

  #noteMissing(sql: Sql, now: number, provider: ProviderName, listed: SandboxInfo[]): void {
    for (const row of ofProvider(liveReservations(sql, now), provider)) {
      const isDue = row.connectedAt !== null || now - row.grantedAt > bootPatienceMs
      const missing = row.orphanSince === null && isDue && !isAmong(listed, row)
      if (missing !== (row.missingSince !== null))
        markReservationMissing(sql, row, missing ? now : null)
    }
  }

  #decide(sql: Sql, now: number, provider: ProviderName) {
    const rows = ofProvider(liveReservations(sql, now), provider)
    const graceMs = this.#kernel.ports.firewall.graceSeconds * 1000
    const patienceMs = killSwitchReason(sql) === null ? graceMs : 0
    const isPast = (since: number | null, ms: number) => since !== null && now - since >= ms
    const orphans = rows.filter(({ orphanSince }) => orphanSince !== null)
    const due = orphans.filter(({ orphanSince }) => isPast(orphanSince, patienceMs))
    return {
      due,
      waiting: orphans.length - due.length,
      missing: rows.filter(({ missingSince }) => isPast(missingSince, graceMs)),
    }
  }

  /** False: not yet. The next look tries again. */
  async #stopOrphan(provider: SandboxProvider, row: ReservationRow): Promise<boolean> {
    try {
      await provider.stop(row.sessionId, row.generation)
    } catch (error) {
      this.#warn('Cannot stop an orphan, will try again', row.provider, error)
      return false
    }
    this.#kernel.commit((sql, now) => {
      const reason = 'It ran without a reservation'
      this.#endOrphan(sql, now, row, 'orphan.stopped', reason)
    })
    return true
  }

  /** Once: two looks may be under way, for the reconciler and for a kill switch. */
  #endOrphan(
    sql: Sql,
    now: number,
    { sessionId, generation }: Names,
    action: 'orphan.stopped' | 'orphan.gone',
    reason: string,
  ): void {
    const row = findReservation(sql, sessionId, generation)
    if (!row || row.orphanSince === null) return
    endReservation(sql, now, row, 'orphan', reason)
    addAction(sql, now, { action, actor: 'reconciler', sandbox: row, reason })
  }

  /** A list can be wrong about one sandbox; only a true not-found gives its place away. */
  async #checkMissing(provider: SandboxProvider, seen: ReservationRow): Promise<void> {
    const found = await provider.get(seen.sessionId, seen.generation)
    if (found === null) await this.#tellSession(seen)
    this.#kernel.commit((sql, now) => {
      const row = findReservation(sql, seen.sessionId, seen.generation)
      if (!row || row.missingSince === null) return
      if (found !== null) markReservationMissing(sql, row, null)
      else this.#end(sql, now, row, 'vanished', 'The provider no longer knows it')
    })
  }

  /** Its link may look alive for long. If it cannot be told now, it finds out by itself. */
  async #tellSession({ sessionId, generation, provider }: ReservationRow): Promise<void> {
    const { ports } = this.#kernel
    try {
      await ports.session(sessionId).sandbox.check({ organisationId: ports.id, generation })
    } catch (error) {
      this.#warn('Cannot tell a session that its sandbox is gone', provider, error)
    }
  }

  #endOverdue(sql: Sql, now: number): void {
    const reason = 'Its lifetime is over, and nobody has said how it ended'
    for (const row of overdueReservations(sql, now)) this.#end(sql, now, row, 'expired', reason)
  }

  #end(
    sql: Sql,
    now: number,
    row: ReservationRow,
    outcome: 'vanished' | 'expired',
    reason: string,
  ): void {
    recordEnding(this.#kernel.ports, sql, now, row, { outcome, reason })
    const action = `sandbox.${outcome}` as const
    addAction(sql, now, { action, actor: 'reconciler', sandbox: row, reason })
  }

  #warn(message: string, provider: ProviderName, error: unknown): void {
    const fields = { organisationId: this.#kernel.ports.id, provider, error: String(error) }
    this.#kernel.ports.log('warn', message, fields)
  }
}

const isHeld = ({ endedAt, until }: ReservationRow, now: number): boolean =>
  endedAt === null && (until === null || until > now)

const isSettling = ({ endedAt }: ReservationRow, now: number): boolean =>
  endedAt !== null && now - endedAt < settleMs

const isAmong = (listed: readonly Names[], { sessionId, generation }: Names): boolean =>
  listed.some((each) => each.sessionId === sessionId && each.generation === generation)

const ofProvider = (rows: ReservationRow[], name: ProviderName): ReservationRow[] =>
  rows.filter(({ provider }) => provider === name)
