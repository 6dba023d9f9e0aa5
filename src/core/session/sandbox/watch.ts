import { AppError } from '../../../contract/error.ts'
import { linkClose } from '../../../contract/link.ts'
import { clearDeadline, setDeadline } from '../../actor/deadlines.ts'
import type { SandboxFault, SandboxInfo, Sql } from '../../ports.ts'
import { suspectAllAttempts } from '../operations/attempts.ts'
import type { Answer } from '../../../contract/ask.ts'
import { denyOpenQuestions } from '../gate/questions.ts'
import { dropOpenCommands } from '../commands/rows.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { interruptTurn } from '../turns/rows.ts'
import {
  loseStartingSandbox,
  giveUpSandbox,
  loseSandbox,
  replaceSandbox,
} from '../steps/lose-sandbox.ts'
import { jitteredRetryMs } from '../../actor/jitter.ts'
import { messageOf, outsideOrganisation, outsideProvider } from '../record/outside.ts'
import { isPulseSilent, pulseLost, pulseMs, recheckMs } from '../generations/pulse.ts'
import type { SessionRecord } from '../record/record.ts'
import { onceByKey } from '../../actor/keys.ts'
import { isOver } from '../record/record.ts'
import {
  bootMs,
  isStarting,
  isWorking,
  lookMs,
  skipGeneration,
} from '../generations/sandbox-states.ts'
import type { Saving } from '../snapshots/saving.ts'
import {
  beginStart,
  putOffStart,
  requestNextStart,
  startMs,
  startWaking,
} from '../generations/sandbox-start.ts'

/** How long what a sandbox has left may take to be saved. */
const leftMs = 90_000

/**
 * Watches the sandbox while it boots and while it works, and replaces it when it is lost. Every look is a deadline that is
 * armed before the provider is called. A missing socket is not a dead machine: only what the provider says counts, and a
 * sandbox that has become ready meanwhile stays.
 */
export class SandboxWatch {
  readonly #kernel: SessionKernel
  readonly #saving: Saving
  /** The loss that is under way: whoever finds out meanwhile waits for it. */
  #losing: Promise<void> | null = null

  constructor(kernel: SessionKernel, saving: Saving) {
    this.#kernel = kernel
    this.#saving = saving
  }

  /** At least once: the breaker of its provider is reset when an agent calls, not when a machine starts. */
  async onConnected(generation: number): Promise<void> {
    await outsideOrganisation(this.#kernel).sandboxes.connected(
      this.#kernel.session().id,
      generation,
    )
    this.#kernel.commit((sql) => clearDeadline(sql, `sandbox.connected:${generation}`))
  }

  /** All tries together have taken too long. */
  onStartOverdue(): void {
    this.#change((sql, now, { sandboxState, sandboxReason }) => {
      clearDeadline(sql, 'sandbox.start')
      if (!isStarting(sandboxState)) return []
      const why = sandboxReason === null ? '' : `: ${sandboxReason}`
      return giveUpSandbox(sql, now, `Not ready within ${startMs / 1000} s${why}`)
    })
  }

  /** The one before is fenced, but cannot be stopped: it is not waited for any longer. */
  onNext(): void {
    this.#kernel.commit((sql, now) => requestNextStart(sql, now))
  }

  /** Not ready in time. */
  async onBoot(): Promise<void> {
    const session = this.#seen('booting', 'sandbox.boot')
    if (!session) return
    const info = await this.#ask(session)
    if (info?.state === 'queued') this.#putOffBoot()
    else await this.#lose(session, loseStartingSandbox, info, `Not ready within ${bootMs / 1000} s`)
  }

  /** A clone that fails, or an agent that ends before it has called, cannot say so itself. */
  async onLook(): Promise<void> {
    const session = this.#seen('booting', 'sandbox.look')
    if (!session) return
    const info = await this.#ask(session)
    this.#kernel.commit((sql, now) => setDeadline(sql, 'sandbox.look', now + lookMs))
    if (info === null) await this.#lose(session, loseStartingSandbox, null, 'The sandbox is gone')
    else if (info.state === 'queued') this.#putOffBoot()
    else if (info.state === 'exited')
      await this.#lose(session, loseStartingSandbox, info, 'The agent ended while starting')
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
    const silent = isPulseSilent(ports)
    if (silent) ports.host.closeAgent(linkClose.broke, 'Nothing was heard of the agent')
    this.#kernel.commit((sql, now) => {
      if (silent) pulseLost(sql, now)
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
      const ms = jitteredRetryMs(attempt, crypto)
      this.#kernel.commit((sql, now) => setDeadline(sql, 'sandbox.check', now + ms, attempt + 1))
    }
  }

  /** Something speaks against its being there: the provider knows. */
  async verify(): Promise<void> {
    const session = this.#kernel.session()
    if (!isWorking(session)) return
    const info = await this.#ask(session)
    if (info === null) await this.#lose(session, goneFrom, null, unknown)
    if (info?.state !== 'exited') return
    this.#losing ??= this.#loseSaved(session, info).finally(() => (this.#losing = null))
    await this.#losing
  }

  /** Its processes have ended, but its provider may still have its files: the next one starts from them. */
  async #loseSaved(session: SessionRecord, info: SandboxInfo): Promise<void> {
    const left =
      session.status === 'open'
        ? await this.#saving.take(session, 'Left by a sandbox that had ended', leftMs)
        : null
    const decide: typeof goneFrom = (sql, now, reason) => {
      if (left?.ok) left.store()
      return goneFrom(sql, now, reason)
    }
    await this.#lose(session, decide, info, unknown)
  }

  /** Null, and the deadline is gone, if the state is another one by now. */
  #seen(state: SessionRecord['sandboxState'], deadline: string): SessionRecord | null {
    const session = this.#kernel.session()
    if (session.sandboxState === state) return session
    this.#kernel.commit((sql) => clearDeadline(sql, deadline))
    return null
  }

  async #ask({ id, generation }: SessionRecord): Promise<SandboxInfo | null> {
    return (await outsideProvider(this.#kernel)).get(id, generation)
  }

  /** Unless it has changed while the provider was asked: a sandbox that has become ready stays. */
  async #lose(
    seen: SessionRecord,
    decide: (sql: Sql, now: number, reason: string, fault: SandboxFault | null) => Answer[],
    info: SandboxInfo | null,
    otherwise: string,
  ): Promise<void> {
    await this.#kernel.openSecrets()
    // What the provider says may quote the last words of an agent.
    const reason = this.#kernel.hide(info?.reason ?? otherwise)
    this.#change((sql, now, { generation, sandboxState }) =>
      generation === seen.generation && sandboxState === seen.sandboxState
        ? decide(sql, now, reason, info?.fault ?? null)
        : [],
    )
  }

  /** The user wants another one, whatever this one is like. With a key once: asked again, what came of it stays. */
  replace(reason: string, key: string | null = null): void {
    this.#change((sql, now, { provider, generation }) => {
      let answers: Answer[] = []
      onceByKey(sql, now, { scope: 'replace', key, body: reason }, () => {
        answers =
          provider === 'none' ? withoutMachine(sql, now, reason) : replaceMachine(sql, now, reason)
        return String(generation)
      })
      return answers
    })
  }

  /** The exit from every state in which nothing happens by itself. Asked again while it starts, it is the same start. */
  retry(reason: string): void {
    const { sandboxState } = this.#kernel.session()
    if (isStarting(sandboxState)) return
    if (sandboxState === 'stopped') this.#kernel.commit((sql, now) => startWaking(sql, now))
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
  }
}

const unknown = 'The provider no longer knows the sandbox'
const goneFrom = (sql: Sql, now: number, reason: string) => loseSandbox(sql, now, 'gone', reason)

function replaceMachine(sql: Sql, now: number, reason: string): Answer[] {
  beginStart(sql, now)
  return replaceSandbox(sql, now, 'replace', {
    end: { outcome: 'stopped', reason },
    denial: ['The sandbox is being replaced', 'replace'],
    words: `The sandbox was replaced: ${reason}`,
  })
}

/** No machine to stop or start: only the generation moves on, and with it every token. */
function withoutMachine(sql: Sql, now: number, reason: string): Answer[] {
  const answers = denyOpenQuestions(sql, now, 'The sandbox is being replaced', 'replace')
  interruptTurn(sql, now, `The sandbox was replaced: ${reason}`)
  dropOpenCommands(sql, 'The sandbox was replaced')
  suspectAllAttempts(sql, now, 'The sandbox was replaced')
  skipGeneration(sql, now, reason)
  return answers
}
