import { linkClose } from '../../../contract/link.ts'
import { clearDeadline, deadlineAt, setDeadline } from '../../actor/deadlines.ts'
import type { Sql } from '../../ports.ts'
import type { Answer } from '../../../contract/ask.ts'
import type { Halt } from '../../organisation/record/api.ts'
import type { SandboxCaller } from '../record/caller.ts'
import { guardSession } from '../record/guards.ts'
import { appendEvent } from '../log/events.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { letGoSandbox } from '../steps/lose-sandbox.ts'
import { messageOf, outsideProvider } from '../record/outside.ts'
import type { SessionRecord } from '../record/record.ts'
import { isOver } from '../record/record.ts'
import { changeSandboxState, isWorking } from '../generations/sandbox-states.ts'
import type { Saving, Taken } from '../snapshots/saving.ts'

/**
 * Stops a sandbox for the sake of everything: a kill switch, or an end of the whole stack. It is fenced and stands still
 * at once, is saved for as long as there is time, and stopped. The session stays open and goes on from what was saved.
 * Each step is a deadline, so that an instance that dies over it is followed by one that goes on.
 */
export class Halting {
  readonly #kernel: SessionKernel
  readonly #saving: Saving

  constructor(kernel: SessionKernel, saving: Saving) {
    this.#kernel = kernel
    this.#saving = saving
  }

  /** Asked again it changes nothing. */
  async halt(sandbox: SandboxCaller, order: Halt): Promise<void> {
    await this.#kernel.openSecrets()
    const { generation, sandboxState } = guardSession(this.#kernel, sandbox)
    // An older one is being stopped already, and this one too if it is over.
    if (generation !== sandbox.generation || isOver(sandboxState)) return
    const reason = this.#kernel.hide(order.reason)
    this.#kernel.commit((sql, now) =>
      this.#kernel.answer(this.#decide(sql, now, { ...order, reason })),
    )
  }

  #decide(sql: Sql, now: number, { reason, actor, saveMs }: Halt): Answer[] {
    const before = this.#kernel.session()
    if (!changeSandboxState(sql, now, 'hibernate', reason)) return []
    const end = { outcome: 'stopped', reason } as const
    const answers = letGoSandbox(sql, now, before.generation, {
      end,
      denial: [reason, actor],
      words: reason,
    })
    // In a sandbox that has not begun to work, or that is nobody's yet, there is nothing to save.
    if (!isWorking(before) || before.status !== 'open') return answers
    setDeadline(sql, `sandbox.save:${before.generation}`, now)
    setDeadline(sql, `sandbox.stop:${before.generation}`, now + saveMs)
    return answers
  }

  async onSave(generation: number): Promise<void> {
    const session = this.#kernel.session()
    const stopAt = deadlineAt(this.#kernel.ports.sql, `sandbox.stop:${generation}`)
    const isDue = session.generation === generation && session.sandboxState === 'stopping'
    if (isDue && stopAt !== null) await this.#save(session, stopAt)
    else this.#kernel.commit((sql) => clearDeadline(sql, `sandbox.save:${generation}`))
  }

  async #save(session: SessionRecord, stopAt: number): Promise<void> {
    const leftMs = stopAt - this.#kernel.ports.now()
    await this.#freeze(session)
    const taken: Taken =
      leftMs > 0
        ? await this.#saving.take(session, 'Before it was stopped', leftMs)
        : { ok: false, reason: 'There was no time left' }
    this.#kernel.commit((sql, now) => this.#saved(sql, now, session, taken))
    // By now the link may be its successor's.
    if (this.#kernel.session().generation !== session.generation) return
    // Not earlier: an agent that hears of its end begins to clear up.
    this.#kernel.ports.host.closeAgent(linkClose.fenced, 'This sandbox is stopped')
  }

  /** What cannot stand still is fenced all the same: nothing that it sends or asks for is heard. */
  async #freeze({ id, generation }: SessionRecord): Promise<void> {
    try {
      await (await outsideProvider(this.#kernel)).freeze?.(id, generation)
    } catch (error) {
      const fields = { sessionId: id, generation, error: messageOf(error) }
      this.#kernel.ports.log('warn', 'Cannot freeze a sandbox', fields)
    }
  }

  /** Said either way: nobody is to find out by the loss. */
  #saved(sql: Sql, now: number, { generation }: SessionRecord, taken: Taken): void {
    clearDeadline(sql, `sandbox.save:${generation}`)
    if (taken.ok) taken.store()
    const session = this.#kernel.session()
    // Closed or replaced meanwhile: that has its own end.
    if (session.generation !== generation || session.sandboxState !== 'stopping') return
    const reason = session.sandboxReason ?? ''
    if (taken.ok) {
      const { id: snapshotId, bytes } = taken
      appendEvent(sql, now, 'sandbox.hibernated', { generation, snapshotId, bytes, reason })
    } else appendEvent(sql, now, 'sandbox.unsaved', { generation, reason: taken.reason })
    setDeadline(sql, `sandbox.stop:${generation}`, now)
  }
}
