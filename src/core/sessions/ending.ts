import { clearDeadline, deadlinesOf, isTaken, setDeadline } from '../deadlines.ts'
import { abandonCalls } from '../gateway/calls.ts'
import type { Sql } from '../ports.ts'
import { suspectAll } from '../runs/attempts.ts'
import { endOpenRuns } from '../runs/close-runs.ts'
import { denyOpenAsks } from './asks.ts'
import { addCommand, dropOpenCommands, openCommands } from './commands.ts'
import { appendEvent } from './events.ts'
import { endGeneration, loadGeneration } from './generations.ts'
import type { Kernel } from './kernel.ts'
import { interruptTurn, requestNext, stopWatching, wakeSandbox } from './loss.ts'
import { messageOf, organisationOf, providerOf, retryMs } from './outside.ts'
import { isLive, projectSession } from './record.ts'
import { changeSandbox } from './sandbox.ts'
import { requestAbort, wantsSandbox } from './turns.ts'

/** Stops sandboxes, and closes the session. */
export class Ending {
  readonly #kernel: Kernel
  /** Waiting commands and turns may have ended. */
  readonly #onLoss: () => void

  constructor(kernel: Kernel, onLoss: () => void) {
    this.#kernel = kernel
    this.#onLoss = onLoss
  }

  /** Repeated until the provider has stopped it and the organisation knows: a crash strands no place. */
  async onStop(generation: number, attempt: number): Promise<void> {
    try {
      await this.#stop(generation)
    } catch (error) {
      const { log, crypto } = this.#kernel.ports
      const { id: sessionId } = this.#kernel.session()
      log('warn', 'Cannot stop a sandbox', { sessionId, generation, error: messageOf(error) })
      const ms = retryMs(attempt, crypto)
      this.#kernel.commit((sql, now) =>
        setDeadline(sql, `sandbox.stop:${generation}`, now + ms, attempt + 1),
      )
    }
  }

  async #stop(generation: number): Promise<void> {
    const { id } = this.#kernel.session()
    const provider = await providerOf(this.#kernel)
    const creating = isTaken(this.#kernel.ports.sql, `sandbox.create:${generation}`)
    await provider.stop(id, generation)
    // What was ordered may come into being after this stop: it is stopped again, and keeps its place until then.
    if (creating) throw new Error('It is still being created')
    const own = loadGeneration(this.#kernel.ports.sql, generation)
    await organisationOf(this.#kernel).sandboxEnded(id, generation, {
      outcome: own?.outcome ?? 'stopped',
      reason: own?.reason ?? '',
    })
    await this.#kernel.crash('sandbox.stopped')
    this.#kernel.commit((sql, now) => this.#stopped(sql, now, generation))
  }

  #stopped(sql: Sql, now: number, generation: number): void {
    clearDeadline(sql, `sandbox.stop:${generation}`)
    const { generation: current, status, sandboxReason } = this.#kernel.session()
    if (current === generation) changeSandbox(sql, now, 'stopped', sandboxReason)
    else if (deadlinesOf(sql, 'sandbox.stop').length === 0) requestNext(sql, now)
    // Somebody has asked for it while it went to sleep.
    if (status === 'open' && (wantsSandbox(sql) || isExpected(sql))) wakeSandbox(sql, now)
  }

  /** Every generation that may still have a machine. */
  async stopAll(): Promise<void> {
    const { generation, sandboxState } = this.#kernel.session()
    const stopping = deadlinesOf(this.#kernel.ports.sql, 'sandbox.stop').map(Number)
    // What its provider has stopped needs no provider any more, which may be long gone.
    const current = sandboxState === 'stopped' ? [] : [generation]
    for (const each of new Set([...stopping, ...current])) await this.#stop(each)
  }

  close(reason: string): void {
    const session = this.#kernel.session()
    if (!isLive(session)) return
    this.#kernel.commit((sql, now) => {
      this.#kernel.answer(denyOpenAsks(sql, now, 'The session is being closed', 'close'))
      // Whoever waits for the sandbox learns at once that nothing will come.
      dropOpenCommands(sql, 'The session was closed')
      // Those that run here settle by themselves; nobody is left to run the others.
      abandonCalls(sql, now, this.#kernel.instance)
      clearDeadline(sql, 'close')
      // Before their turns end: a run that a prompt made would end as its turn does.
      endOpenRuns(sql, now, 'The session was closed')
      requestAbort(sql, now, session.generation)
      interruptTurn(sql, now, 'The session was closed')
      suspectAll(sql, now, 'The session was closed')
      setDeadline(sql, 'slice.return', now)
      sql.run(`update session set status = 'closed', closed_at = ?`, now)
      appendEvent(sql, now, 'session.closed', { reason })
      projectSession(sql, now)
      setDeadline(sql, 'purge', now + this.#kernel.ports.config.retentionMs)
      if (session.status === 'warm') setDeadline(sql, 'warm', now)
      if (changeSandbox(sql, now, 'close', null)) this.#end(sql, now, session.generation)
    })
    this.#onLoss()
  }

  #end(sql: Sql, now: number, generation: number): void {
    stopWatching(sql)
    clearDeadline(sql, 'sandbox.start')
    endGeneration(sql, generation, now, { outcome: 'stopped', reason: 'The session was closed' })
    setDeadline(sql, `sandbox.stop:${generation}`, now)
    addCommand(sql, now, {
      id: `stop_${generation}`,
      generation,
      kind: 'stop',
      body: { reason: 'session closed' },
    })
  }
}

/** An operation was sent to it meanwhile. */
const isExpected = (sql: Sql): boolean => openCommands(sql).some(({ kind }) => kind === 'execute')
