import { linkClose } from '../../../contract/link.ts'
import { clearDeadline, setDeadline } from '../../actor/deadlines.ts'
import type { Sql } from '../../ports.ts'
import { idleSinceActivity } from '../turns/activity.ts'
import { appendEvent } from '../log/events.ts'
import { loadGeneration, noteGenerationKept } from '../generations/generations.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { letGoSandbox } from '../steps/lose-sandbox.ts'
import type { SessionRecord } from '../record/record.ts'
import { changeSandboxState, isWorking } from '../generations/sandbox-states.ts'
import { type Saving, snapshotMs } from '../snapshots/saving.ts'

const maxTries = 3
const tryAgainMs = 5 * 60_000

/**
 * Puts a sandbox to sleep that nobody has used for the session's idle time. Its files are saved first; if that fails three
 * times it stays awake until its lifetime ends, because sleep would lose its work. A prompt wakes it. Met by the deadline
 * `sandbox.idle`, and used by whoever faces the end of its lifetime.
 */
export class Idle {
  readonly #kernel: SessionKernel
  readonly #saving: Saving

  constructor(kernel: SessionKernel, saving: Saving) {
    this.#kernel = kernel
    this.#saving = saving
  }

  async onDeadline(): Promise<void> {
    const session = this.#kernel.session()
    const { sql, now } = this.#kernel.ports
    if (!isWorking(session) || session.idleTimeoutSeconds === null) return this.#again(null)
    const idleMs = session.idleTimeoutSeconds * 1000
    const since = this.since(session)
    // If it is in use now it cannot have been idle for long enough any earlier.
    if (since === null || since + idleMs > now()) return this.#again((since ?? now()) + idleMs)
    const { keptSince, keptTries } = loadGeneration(sql, session.generation) ?? noTries
    const tries = keptSince === since ? keptTries : 0
    // Sleep without a snapshot would lose its work: it is kept until its lifetime ends.
    if (tries >= maxTries) return this.#again(now() + idleMs)
    this.#again(now() + snapshotMs + tryAgainMs)
    const failure = await this.sleep(session, since, `Nobody used it for ${idleMs / 1000} s`)
    if (failure !== null) this.#keep(session, { since, tries: tries + 1 }, failure)
  }

  since({ generation }: SessionRecord): number | null {
    return idleSinceActivity(this.#kernel.ports.sql, this.#kernel.instance, generation)
  }

  /** Null: it sleeps, or somebody has begun to use it meanwhile, and its work is saved either way. */
  async sleep(seen: SessionRecord, since: number, reason: string): Promise<string | null> {
    const taken = await this.#saving.take(seen, 'Before sleep')
    if (!taken.ok) return taken.reason
    const asleep = this.#kernel.commit((sql, now) => {
      const isOther = this.#isOther(seen, since)
      taken.store(isOther ? taken.begunAt : now)
      if (isOther) return this.#setAgain(sql, now)
      if (!changeSandboxState(sql, now, 'hibernate', reason)) return false
      this.#kernel.answer(
        letGoSandbox(sql, now, seen.generation, {
          end: { outcome: 'stopped', reason },
          denial: ['The sandbox goes to sleep', 'idle'],
          words: 'The sandbox goes to sleep',
        }),
      )
      const { id: snapshotId, bytes } = taken
      appendEvent(sql, now, 'sandbox.hibernated', {
        generation: seen.generation,
        snapshotId,
        bytes,
        reason,
      })
      return true
    })
    if (asleep) this.#kernel.ports.host.closeAgent(linkClose.fenced, 'This sandbox goes to sleep')
    return null
  }

  #isOther(seen: SessionRecord, since: number): boolean {
    const session = this.#kernel.session()
    return session.generation !== seen.generation || this.since(session) !== since
  }

  #setAgain(sql: Sql, now: number): false {
    const { idleTimeoutSeconds } = this.#kernel.session()
    if (idleTimeoutSeconds !== null)
      setDeadline(sql, 'sandbox.idle', now + idleTimeoutSeconds * 1000)
    return false
  }

  /** Never silently: people see why it goes on running. */
  #keep(
    { generation }: SessionRecord,
    kept: { since: number; tries: number },
    reason: string,
  ): void {
    if (this.#kernel.session().generation !== generation) return
    this.#kernel.commit((sql, now) => {
      const retryAt = kept.tries < maxTries ? now + kept.tries * tryAgainMs : null
      noteGenerationKept(sql, generation, kept)
      appendEvent(sql, now, 'sandbox.kept', { generation, reason, retryAt })
      if (retryAt === null) this.#setAgain(sql, now)
      else setDeadline(sql, 'sandbox.idle', retryAt)
    })
  }

  #again(at: number | null): void {
    this.#kernel.commit((sql) =>
      at === null ? clearDeadline(sql, 'sandbox.idle') : setDeadline(sql, 'sandbox.idle', at),
    )
  }
}

const noTries = { keptSince: null, keptTries: 0 }
