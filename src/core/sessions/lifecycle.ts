import { linkClose } from '../../contract/link.ts'
import { backoffMs, clearDeadline, deadlinesOf, setDeadline } from '../deadlines.ts'
import { abandonCalls } from '../gateway/calls.ts'
import type { SandboxInfo, SandboxProvider, SandboxSpec, Sql } from '../ports.ts'
import { denyOpenAsks } from './asks.ts'
import { addCommand, dropOpenCommands } from './commands.ts'
import { appendEvent } from './events.ts'
import type { Kernel } from './kernel.ts'
import { interruptTurn, loseSandbox } from './loss.ts'
import { projectSession, type SessionRecord } from './record.ts'
import { bootMs, changeSandbox, moveOn } from './sandbox.ts'
import { newestSnapshot } from './snapshots.ts'
import { requestAbort } from './turns.ts'

const maxCreateAttempts = 5
const lookMs = 5000
const recheckMs = 15_000

/** Starts, watches and ends the sandbox. Every step is a deadline, armed before the provider is called. */
export class Lifecycle {
  readonly #kernel: Kernel
  /** Waiting commands and turns may have ended. */
  readonly #onLoss: () => void

  constructor(kernel: Kernel, onLoss: () => void) {
    this.#kernel = kernel
    this.#onLoss = onLoss
  }

  #provider(): SandboxProvider {
    const { provider } = this.#kernel.session()
    const found = this.#kernel.ports.provider(provider)
    if (!found) throw new Error(`No sandbox provider "${provider}" is configured`)
    return found
  }

  async onCreate(attempt: number): Promise<void> {
    const session = this.#kernel.session()
    if (session.status !== 'open' || !isStarting(session)) {
      this.#kernel.commit((sql) => clearDeadline(sql, 'sandbox.create'))
      return
    }
    this.#kernel.commit((sql, now) => changeSandbox(sql, now, 'create-sent', null))
    try {
      const info = await this.#provider().create(await this.#spec())
      await this.#kernel.crash('sandbox.created')
      await this.#kernel.openSecrets()
      this.#created(session.generation, info)
    } catch (error) {
      await this.#kernel.openSecrets()
      this.#createFailed(session.generation, attempt, error)
    }
    this.#onLoss()
  }

  async #spec(): Promise<SandboxSpec> {
    const session = this.#kernel.session()
    const { crypto, tokens, config } = this.#kernel.ports
    const { token } = await tokens.mint({
      sessionId: session.id,
      organisationId: session.organisationId,
      generation: session.generation,
    })
    const repository = session.repositoryUrl && {
      url: session.repositoryUrl,
      ref: session.repositoryRef,
      token: session.repositoryToken && (await crypto.unseal(session.repositoryToken)),
    }
    return {
      sessionId: session.id,
      organisationId: session.organisationId,
      generation: session.generation,
      gatewayUrl: config.publicUrl,
      token,
      repository: repository || null,
      // What the session itself has saved is newer than what it began with.
      snapshotId: newestSnapshot(this.#kernel.ports.sql) ?? session.snapshotId,
    }
  }

  #created(generation: number, info: SandboxInfo): void {
    this.#kernel.commit((sql, now) => {
      const session = this.#kernel.session()
      // Closed or replaced meanwhile, and perhaps stopped before it was there: it is stopped again.
      if (session.generation !== generation || session.status !== 'open') {
        setDeadline(sql, `sandbox.stop:${generation}`, now)
        return
      }
      if (info.state === 'exited') {
        this.#kernel.answer(
          loseSandbox(sql, now, 'failed', this.#reason(info, 'The agent ended while starting')),
        )
        return
      }
      clearDeadline(sql, 'sandbox.create')
      if (
        changeSandbox(sql, now, 'created', null) &&
        this.#kernel.session().sandboxState === 'booting'
      ) {
        setDeadline(sql, 'sandbox.boot', now + bootMs)
        setDeadline(sql, 'sandbox.look', now + lookMs)
      }
    })
  }

  #createFailed(generation: number, attempt: number, error: unknown): void {
    const message = this.#kernel.redact(error instanceof Error ? error.message : String(error))
    this.#kernel.ports.log('warn', 'Cannot create the sandbox', {
      sessionId: this.#kernel.session().id,
      attempt,
      error: message,
    })
    this.#kernel.commit((sql, now) => {
      const session = this.#kernel.session()
      // Its agent may have called, though the answer to its creation was lost.
      if (session.generation !== generation || !isStarting(session)) return
      if (attempt + 1 >= maxCreateAttempts) {
        this.#kernel.answer(
          loseSandbox(sql, now, 'failed', `Cannot create the sandbox: ${message}`),
        )
      } else setDeadline(sql, 'sandbox.create', now + backoffMs(attempt), attempt + 1)
    })
  }

  /** Not ready in time. Waiting for a place to boot does not count: the host has its own limit for that. */
  async onBoot(): Promise<void> {
    const session = this.#kernel.session()
    if (session.sandboxState !== 'booting') {
      this.#kernel.commit((sql) => clearDeadline(sql, 'sandbox.boot'))
      return
    }
    const info = await this.#provider().get(session.id, session.generation)
    if (info?.state === 'queued') {
      this.#kernel.commit((sql, now) => setDeadline(sql, 'sandbox.boot', now + bootMs))
      return
    }
    if (info === null) await this.#lose(session, 'gone', null, 'The sandbox is gone')
    else await this.#lose(session, 'failed', info, `Not ready within ${bootMs / 1000} s`)
  }

  /** A clone that fails, or an agent that ends before it has called, cannot say so itself. */
  async onLook(): Promise<void> {
    const session = this.#kernel.session()
    if (session.sandboxState !== 'booting') {
      this.#kernel.commit((sql) => clearDeadline(sql, 'sandbox.look'))
      return
    }
    const info = await this.#provider().get(session.id, session.generation)
    this.#kernel.commit((sql, now) => setDeadline(sql, 'sandbox.look', now + lookMs))
    if (info === null) await this.#lose(session, 'gone', null, 'The sandbox is gone')
    else if (info.state === 'exited')
      await this.#lose(session, 'failed', info, 'The agent ended while starting')
  }

  async onCheck(): Promise<void> {
    const session = this.#kernel.session()
    if (session.sandboxState !== 'suspect') {
      this.#kernel.commit((sql) => clearDeadline(sql, 'sandbox.check'))
      return
    }
    const info = await this.#provider().get(session.id, session.generation)
    if (info && info.state !== 'exited') {
      this.#kernel.commit((sql, now) => setDeadline(sql, 'sandbox.check', now + recheckMs))
      return
    }
    await this.#lose(session, 'gone', info, 'The provider no longer knows the sandbox')
  }

  /** Unless it has changed while the provider was asked: a sandbox that has become ready stays. */
  async #lose(
    seen: SessionRecord,
    cause: 'gone' | 'failed',
    info: SandboxInfo | null,
    otherwise: string,
  ): Promise<void> {
    await this.#kernel.openSecrets()
    this.#kernel.commit((sql, now) => {
      const { generation, sandboxState } = this.#kernel.session()
      if (generation !== seen.generation || sandboxState !== seen.sandboxState) return
      this.#kernel.answer(loseSandbox(sql, now, cause, this.#reason(info, otherwise)))
    })
    this.#onLoss()
  }

  /** What the provider says may quote the last words of an agent. */
  #reason(info: SandboxInfo | null, otherwise: string): string {
    return this.#kernel.redact(info?.reason ?? otherwise)
  }

  async onStop(generation: number): Promise<void> {
    const session = this.#kernel.session()
    await this.#provider().stop(session.id, generation)
    await this.#kernel.crash('sandbox.stopped')
    this.#kernel.commit((sql, now) => {
      clearDeadline(sql, `sandbox.stop:${generation}`)
      if (this.#kernel.session().generation === generation) changeSandbox(sql, now, 'stopped', null)
    })
  }

  /** Every generation that may still have a machine. */
  async stopAll(): Promise<void> {
    const { generation } = this.#kernel.session()
    const stopping = deadlinesOf(this.#kernel.ports.sql, 'sandbox.stop').map(Number)
    for (const each of new Set([...stopping, generation])) await this.onStop(each)
  }

  close(reason: string): void {
    const session = this.#kernel.session()
    if (session.status !== 'open') return
    this.#kernel.commit((sql, now) => {
      this.#kernel.answer(denyOpenAsks(sql, now, 'The session is being closed', 'close'))
      // Whoever waits for the sandbox learns at once that nothing will come.
      dropOpenCommands(sql, 'The session was closed')
      // Those that run here settle by themselves; nobody is left to run the others.
      abandonCalls(sql, now, this.#kernel.instance)
      clearDeadline(sql, 'close')
      requestAbort(sql, now, session.generation)
      interruptTurn(sql, now, 'The session was closed')
      sql.run(`update session set status = 'closed', closed_at = ?`, now)
      appendEvent(sql, now, 'session.closed', { reason })
      projectSession(sql, now)
      this.#end(sql, now, session.generation)
    })
    this.#onLoss()
  }

  #end(sql: Sql, now: number, generation: number): void {
    setDeadline(sql, 'purge', now + this.#kernel.ports.config.retentionMs)
    if (!changeSandbox(sql, now, 'close', null)) return
    for (const name of ['sandbox.create', 'sandbox.boot', 'sandbox.check']) clearDeadline(sql, name)
    addCommand(sql, now, {
      id: `stop_${generation}`,
      generation,
      kind: 'stop',
      body: { reason: 'session closed' },
    })
    setDeadline(sql, `sandbox.stop:${generation}`, now)
  }

  /** Fence first: from the commit on, whatever the old generation sends is refused. */
  replace(reason: string): void {
    const { generation, provider } = this.#kernel.session()
    const replaced = this.#kernel.commit((sql, now) => {
      this.#kernel.answer(denyOpenAsks(sql, now, 'The sandbox is being replaced', 'replace'))
      interruptTurn(sql, now, `The sandbox was replaced: ${reason}`)
      dropOpenCommands(sql, 'The sandbox was replaced')
      for (const name of ['sandbox.boot', 'sandbox.check', 'turn.abort']) clearDeadline(sql, name)
      // No machine to stop or start: only the generation moves on, and with it every token.
      if (provider === 'none') return moveOn(sql, now, reason)
      if (!changeSandbox(sql, now, 'replace', reason)) return false
      setDeadline(sql, `sandbox.stop:${generation}`, now)
      setDeadline(sql, 'sandbox.create', now)
      return true
    })
    if (replaced)
      this.#kernel.ports.host.closeAgent(linkClose.fenced, 'This sandbox has been replaced')
    this.#onLoss()
  }
}

const isStarting = ({ sandboxState }: SessionRecord): boolean =>
  sandboxState === 'requested' || sandboxState === 'creating'
