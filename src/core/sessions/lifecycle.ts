import { AppError } from '../../contract/error.ts'
import { linkClose } from '../../contract/link.ts'
import { clearDeadline, setDeadline } from '../deadlines.ts'
import type { SandboxInfo, Sql } from '../ports.ts'
import { suspectAll } from '../runs/attempts.ts'
import type { Answer } from './asks.ts'
import { denyOpenAsks } from './asks.ts'
import { dropOpenCommands } from './commands.ts'
import type { Kernel } from './kernel.ts'
import {
  failStart,
  giveUp,
  interruptTurn,
  loseSandbox,
  replaceBy,
  requestNext,
  wakeSandbox,
} from './loss.ts'
import { messageOf, organisationOf, providerOf, retryMs } from './outside.ts'
import { isSilent, linkLost, pulseMs } from './readiness.ts'
import type { SessionRecord } from './record.ts'
import { bootMs, isOver, isStarting, isWorking, lookMs, moveOn } from './sandbox.ts'
import { beginStart, putOffStart, startMs } from './start.ts'

const recheckMs = 15_000

/** Watches the sandbox, and replaces it. Every step is a deadline, armed before the provider is called. */
export class Lifecycle {
  readonly #kernel: Kernel
  /** Waiting commands and turns may have ended. */
  readonly #onLoss: () => void

  constructor(kernel: Kernel, onLoss: () => void) {
    this.#kernel = kernel
    this.#onLoss = onLoss
  }

  /** At least once: the breaker of its provider is reset when an agent calls, not when a machine starts. */
  async onConnected(generation: number): Promise<void> {
    await organisationOf(this.#kernel).sandboxConnected(this.#kernel.session().id, generation)
    this.#kernel.commit((sql) => clearDeadline(sql, `sandbox.connected:${generation}`))
  }

  /** All tries together have taken too long. */
  onStartOverdue(): void {
    this.#change((sql, now, { sandboxState, sandboxReason }) => {
      clearDeadline(sql, 'sandbox.start')
      if (!isStarting(sandboxState)) return []
      const why = sandboxReason === null ? '' : `: ${sandboxReason}`
      return giveUp(sql, now, `Not ready within ${startMs / 1000} s${why}`)
    })
  }

  /** The one before is fenced, but cannot be stopped: it is not waited for any longer. */
  onNext(): void {
    this.#kernel.commit((sql, now) => requestNext(sql, now))
  }

  /** Not ready in time. */
  async onBoot(): Promise<void> {
    const session = this.#seen('booting', 'sandbox.boot')
    if (!session) return
    const info = await this.#ask(session)
    if (info?.state === 'queued') this.#putOffBoot()
    else await this.#lose(session, failStart, info, `Not ready within ${bootMs / 1000} s`)
  }

  /** A clone that fails, or an agent that ends before it has called, cannot say so itself. */
  async onLook(): Promise<void> {
    const session = this.#seen('booting', 'sandbox.look')
    if (!session) return
    const info = await this.#ask(session)
    this.#kernel.commit((sql, now) => setDeadline(sql, 'sandbox.look', now + lookMs))
    if (info === null) await this.#lose(session, failStart, null, 'The sandbox is gone')
    else if (info.state === 'queued') this.#putOffBoot()
    else if (info.state === 'exited')
      await this.#lose(session, failStart, info, 'The agent ended while starting')
  }

  /** Waiting for a place to boot does not count: its time begins when it has one, and the host has a limit of its own. */
  #putOffBoot(): void {
    if (!this.#seen('booting', 'sandbox.boot')) return
    this.#kernel.commit((sql, now) => {
      setDeadline(sql, 'sandbox.boot', now + bootMs)
      putOffStart(sql, now)
    })
  }

  /** A socket may look open for an hour after its other end is gone. */
  onPulse(): void {
    if (!this.#seen('ready', 'sandbox.pulse')) return
    const { ports } = this.#kernel
    const silent = isSilent(ports)
    if (silent) ports.host.closeAgent(linkClose.broke, 'Nothing was heard of the agent')
    this.#kernel.commit((sql, now) => {
      if (silent) linkLost(sql, now)
      setDeadline(sql, 'sandbox.pulse', now + pulseMs)
    })
  }

  /** A missing socket is not a dead machine, and a provider that cannot be asked says nothing. */
  async onCheck(attempt: number): Promise<void> {
    const session = this.#seen('suspect', 'sandbox.check')
    if (!session) return
    const { crypto, log } = this.#kernel.ports
    try {
      this.#kernel.commit((sql, now) => setDeadline(sql, 'sandbox.check', now + recheckMs))
      await this.verify()
    } catch (error) {
      log('warn', 'Cannot ask for the sandbox', { sessionId: session.id, error: messageOf(error) })
      const ms = retryMs(attempt, crypto)
      this.#kernel.commit((sql, now) => setDeadline(sql, 'sandbox.check', now + ms, attempt + 1))
    }
  }

  /** Something speaks against its being there: the provider knows. */
  async verify(): Promise<void> {
    const session = this.#kernel.session()
    if (!isWorking(session)) return
    const info = await this.#ask(session)
    if (info === null || info.state === 'exited')
      await this.#lose(session, goneFrom, info, 'The provider no longer knows the sandbox')
  }

  /** Null, and the deadline is gone, if the state is another one by now. */
  #seen(state: SessionRecord['sandboxState'], deadline: string): SessionRecord | null {
    const session = this.#kernel.session()
    if (session.sandboxState === state) return session
    this.#kernel.commit((sql) => clearDeadline(sql, deadline))
    return null
  }

  async #ask({ id, generation }: SessionRecord): Promise<SandboxInfo | null> {
    return (await providerOf(this.#kernel)).get(id, generation)
  }

  /** Unless it has changed while the provider was asked: a sandbox that has become ready stays. */
  async #lose(
    seen: SessionRecord,
    decide: (sql: Sql, now: number, reason: string) => Answer[],
    info: SandboxInfo | null,
    otherwise: string,
  ): Promise<void> {
    await this.#kernel.openSecrets()
    // What the provider says may quote the last words of an agent.
    const reason = this.#kernel.redact(info?.reason ?? otherwise)
    this.#change((sql, now, { generation, sandboxState }) =>
      generation === seen.generation && sandboxState === seen.sandboxState
        ? decide(sql, now, reason)
        : [],
    )
  }

  /** The user wants another one, whatever this one is like. */
  replace(reason: string): void {
    this.#change((sql, now, { provider }) => {
      if (provider === 'none') return withoutMachine(sql, now, reason)
      beginStart(sql, now)
      return replaceBy(sql, now, 'replace', {
        end: { outcome: 'stopped', reason },
        denial: ['The sandbox is being replaced', 'replace'],
        words: `The sandbox was replaced: ${reason}`,
      })
    })
  }

  /** The exit from every state in which nothing happens by itself. Asked again while it starts, it is the same start. */
  retry(reason: string): void {
    const { sandboxState } = this.#kernel.session()
    if (isStarting(sandboxState)) return
    if (sandboxState === 'stopped') this.#kernel.commit((sql, now) => wakeSandbox(sql, now))
    else if (sandboxState === 'failed' || sandboxState === 'lost') this.replace(reason)
    else throw new AppError('wrong_state', `Cannot start the sandbox again: it is ${sandboxState}`)
  }

  /** The old link is closed after the commit that fences it. */
  #change(work: (sql: Sql, now: number, session: SessionRecord) => Answer[]): void {
    const { generation } = this.#kernel.session()
    this.#kernel.commit((sql, now) => this.#kernel.answer(work(sql, now, this.#kernel.session())))
    const after = this.#kernel.session()
    if (after.generation !== generation || isOver(after.sandboxState))
      this.#kernel.ports.host.closeAgent(linkClose.fenced, 'This sandbox has been given up')
    this.#onLoss()
  }
}

const goneFrom = (sql: Sql, now: number, reason: string) => loseSandbox(sql, now, 'gone', reason)

/** No machine to stop or start: only the generation moves on, and with it every token. */
function withoutMachine(sql: Sql, now: number, reason: string): Answer[] {
  const answers = denyOpenAsks(sql, now, 'The sandbox is being replaced', 'replace')
  interruptTurn(sql, now, `The sandbox was replaced: ${reason}`)
  dropOpenCommands(sql, 'The sandbox was replaced')
  suspectAll(sql, now, 'The sandbox was replaced')
  moveOn(sql, now, reason)
  return answers
}
