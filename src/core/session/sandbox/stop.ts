import {
  clearDeadline,
  deadlineAt,
  deadlinesOf,
  isDeadlineTaken,
  setDeadline,
} from '../../actor/deadlines.ts'
import type { Sql } from '../../ports.ts'
import { openCommands } from '../commands/rows.ts'
import { appendEvent } from '../log/events.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { jitteredRetryMs } from '../../actor/jitter.ts'
import { messageOf, outsideOrganisation, outsideProvider } from '../record/outside.ts'
import { loadGeneration, wasReady } from '../generations/generations.ts'
import { changeSandboxState } from '../generations/sandbox-states.ts'
import { requestNextStart, startWaking } from '../generations/sandbox-start.ts'
import { wantsSandbox } from '../turns/rows.ts'

/**
 * Stops sandboxes that are over, and tells the organisation, whose books hold their places until then. A stop is repeated
 * until the provider has carried it out, so no machine and no place is left behind by a crash. Met by the deadline
 * `sandbox.stop:<generation>`; erasing the session stops all that may still be there.
 */
export class SandboxStop {
  readonly #kernel: SessionKernel

  constructor(kernel: SessionKernel) {
    this.#kernel = kernel
  }

  /** Repeated until the provider has stopped it and the organisation knows: a crash strands no place. */
  async onStop(generation: number, attempt: number): Promise<void> {
    try {
      await this.#stop(generation)
    } catch (error) {
      const { log, crypto } = this.#kernel.ports
      const { id: sessionId } = this.#kernel.session()
      log('warn', 'Cannot stop a sandbox', { sessionId, generation, error: messageOf(error) })
      const ms = jitteredRetryMs(attempt, crypto)
      this.#kernel.commit((sql, now) =>
        setDeadline(sql, `sandbox.stop:${generation}`, now + ms, attempt + 1),
      )
    }
  }

  async #stop(generation: number): Promise<void> {
    const { id } = this.#kernel.session()
    const provider = await outsideProvider(this.#kernel)
    const creating = isDeadlineTaken(this.#kernel.ports.sql, `sandbox.create:${generation}`)
    await provider.stop(id, generation)
    // What was ordered may come into being after this stop: it is stopped again, and keeps its place until then.
    if (creating) throw new Error('It is still being created')
    const own = loadGeneration(this.#kernel.ports.sql, generation)
    await outsideOrganisation(this.#kernel).sandboxes.ended(id, generation, {
      outcome: own?.outcome ?? 'stopped',
      reason: own?.reason ?? '',
    })
    await this.#kernel.crash('sandbox.stopped')
    this.#kernel.commit((sql, now) => this.#stopped(sql, now, generation))
  }

  #stopped(sql: Sql, now: number, generation: number): void {
    clearDeadline(sql, `sandbox.stop:${generation}`)
    const { generation: current, status, sandboxReason } = this.#kernel.session()
    if (current === generation) {
      notSaved(sql, now, generation)
      changeSandboxState(sql, now, 'stopped', sandboxReason)
    } else if (deadlinesOf(sql, 'sandbox.stop').length === 0) requestNextStart(sql, now)
    // Somebody has asked for it while it went to sleep, or before it ever worked.
    const isWanted = wantsSandbox(sql) || isExpected(sql) || !wasReady(sql, current)
    if (status === 'open' && isWanted) startWaking(sql, now)
  }

  /** Every generation that may still have a machine. */
  async stopAll(): Promise<void> {
    const { generation, sandboxState } = this.#kernel.session()
    const stopping = deadlinesOf(this.#kernel.ports.sql, 'sandbox.stop').map(Number)
    // What its provider has stopped needs no provider any more, which may be long gone.
    const current = sandboxState === 'stopped' ? [] : [generation]
    for (const each of new Set([...stopping, ...current])) await this.#stop(each)
  }
}

/** Its time to save was over, or nobody was there to do it. */
function notSaved(sql: Sql, now: number, generation: number): void {
  if (deadlineAt(sql, `sandbox.save:${generation}`) === null) return
  clearDeadline(sql, `sandbox.save:${generation}`)
  const reason = 'It was not saved in its time'
  appendEvent(sql, now, 'sandbox.unsaved', { generation, reason })
}

/** An operation was sent to it meanwhile, or a worktree is to be merged or discarded. */
const isExpected = (sql: Sql): boolean =>
  openCommands(sql).some(({ kind }) => ['execute', 'merge', 'discard'].includes(kind))
