import { clearDeadline, setDeadline } from '../../actor/deadlines.ts'
import { appendEvent } from '../log/events.ts'
import {
  type Generation,
  loadGeneration,
  noteGenerationExtended,
} from '../generations/generations.ts'
import type { Idle } from './idle.ts'
import type { SessionKernel } from '../record/kernel.ts'
import type { SandboxWatch } from './watch.ts'
import { isLast, leaseEnd, nextLeaseExtension } from '../generations/lease.ts'
import { jitteredRetryMs } from '../../actor/jitter.ts'
import { messageOf, outsideProvider } from '../record/outside.ts'
import type { SessionRecord } from '../record/record.ts'
import { isWorking } from '../generations/sandbox-states.ts'
import type { Saving } from '../snapshots/saving.ts'

/** What is saved again at the last moment may be much newer. */
const lastTryMs = 2 * 60_000
const lookAgainMs = 60_000

/**
 * Keeps the lease of a sandbox going that is there for somebody, and saves its work before its grant ends. The deadline
 * `sandbox.extend` calls it.
 */
export class LeaseExtension {
  readonly #kernel: SessionKernel
  readonly #saving: Saving
  readonly #idle: Idle
  readonly #watch: SandboxWatch

  constructor(kernel: SessionKernel, saving: Saving, idle: Idle, watch: SandboxWatch) {
    this.#kernel = kernel
    this.#saving = saving
    this.#idle = idle
    this.#watch = watch
  }

  async onDeadline(attempt: number): Promise<void> {
    const session = this.#kernel.session()
    const { sql, now } = this.#kernel.ports
    const own = loadGeneration(sql, session.generation)
    if (!isWorking(session) || !own) return this.#again(null)
    const isOver = (own.endsAt ?? 0) <= now()
    if (isLast(own) && !isOver) return this.#faceEnd(session, own)
    // Without a link nobody can tell whether it is in use: unless it comes back, it ends with its lease.
    if (session.sandboxState === 'suspect') return this.#again(now() + lookAgainMs)
    // It has outlived a time in which nobody was there: what it has is saved before it is found out.
    if (isOver) return this.#faceEnd(session, own)
    await this.#extend(session, own, attempt)
  }

  async #extend(
    { id, generation }: SessionRecord,
    own: Generation,
    attempt: number,
  ): Promise<void> {
    const { now, crypto, log } = this.#kernel.ports
    const leaseUntil = leaseEnd(now(), own.endsAt ?? now())
    try {
      const provider = await outsideProvider(this.#kernel)
      await provider.extend(id, generation, Math.ceil((leaseUntil - now()) / 1000))
      this.#kernel.commit((sql, at) => {
        noteGenerationExtended(sql, generation, leaseUntil)
        setDeadline(sql, 'sandbox.extend', nextLeaseExtension({ ...own, leaseUntil }, at))
      })
    } catch (error) {
      log('warn', 'Cannot extend a sandbox', { sessionId: id, generation, error: messageOf(error) })
      // A link may look open for long after its other end is gone.
      await this.#watch.verify().catch(() => undefined)
      if (this.#kernel.session().generation !== generation) return
      const ms = jitteredRetryMs(attempt, crypto)
      this.#kernel.commit((sql, at) => setDeadline(sql, 'sandbox.extend', at + ms, attempt + 1))
    }
  }

  /** Idle, it goes to sleep before it ends. In use, its work is saved: what comes after that is lost with it. */
  async #faceEnd(session: SessionRecord, { leaseUntil }: Generation): Promise<void> {
    if (session.status === 'warm') return this.#leavePool()
    const lastTry = (leaseUntil ?? 0) - lastTryMs
    const next = lastTry > this.#kernel.ports.now() ? lastTry : null
    this.#again(next)
    const since = this.#idle.since(session)
    const failure =
      since === null
        ? await this.#checkpoint(session)
        : await this.#idle.sleep(session, since, 'Its lifetime is about to end')
    if (failure === null) return
    const { generation } = session
    this.#kernel.commit((sql, now) =>
      appendEvent(sql, now, 'sandbox.kept', { generation, reason: failure, retryAt: next }),
    )
  }

  /** Nobody has worked in it: there is nothing to save, and the next one is better. */
  #leavePool(): void {
    this.#kernel.commit((sql, now) => {
      clearDeadline(sql, 'sandbox.extend')
      setDeadline(sql, 'warm.end', now)
    })
  }

  async #checkpoint(session: SessionRecord): Promise<string | null> {
    const taken = await this.#saving.take(session, 'Before its lifetime ends')
    if (!taken.ok) return taken.reason
    this.#kernel.commit(() => taken.store(taken.begunAt))
    return null
  }

  #again(at: number | null): void {
    this.#kernel.commit((sql) =>
      at === null ? clearDeadline(sql, 'sandbox.extend') : setDeadline(sql, 'sandbox.extend', at),
    )
  }
}
