// One turn that OpenCode has, from its prompt to `turn.ended`. That end comes whatever OpenCode does: it may finish,
// fail, be aborted, die or hang, in which case it is killed. Before the end is told, the turn is compared with what
// OpenCode has stored, so that no part is missing. `Turns` creates it and passes events, aborts and deaths on to it.

import type { DiffReport } from '../../src/contract/diff.ts'
import { crashPoint } from '../crash-points.ts'
import { tellerSession, Teller } from './teller.ts'
import type { Gate, ToolPart } from '../gate/gate.ts'
import { log, messageOf, sleep } from '../log.ts'
import type { Memory } from '../memory/memory.ts'
import { turnLossNotice } from './notice.ts'
import type { OpenCode, OpenCodeEvent } from '../opencode/opencode.ts'
import { shorten } from '../shorten.ts'
import type { Emit, ToldParts } from '../memory/spool.ts'
import { ToolCheck } from './tool-check.ts'
import {
  type Ending,
  transcriptEnd,
  transcriptError,
  hasRunningTool,
  loadOtherTranscripts,
  loadTranscript,
  lookAtTranscript,
  type Message,
  type Prompts,
} from '../opencode/transcript.ts'
import { type Patience, type Verdict, Watch } from './watch.ts'

export interface TurnOptions {
  emit: Emit
  gate: Gate
  memory: Memory
  /** Waits until OpenCode is up. */
  opencode: () => Promise<OpenCode>
  diff: () => Promise<DiffReport | null>
  /** Resolves when it is dead; a new one is on its way then. */
  killOpenCode: () => Promise<void>
  /** How many bytes of models' answers have passed so far. */
  modelBytes: () => number
  patience: Patience
  /** Called with `forget` once the turn's end is on the disk: a turn that is forgotten earlier might never end. */
  afterTurn: (forget: () => void) => void
  /** Who works in a session of OpenCode, if it is known. */
  agentOf?: (sessionId: string) => { agent?: string }
}

interface Begun {
  turnId: string
  sessionId: string
  messageIds: string[]
  startedAt: number
  /** After a restart of the agent: what was told before it. */
  told?: ToldParts
}

export class WorkingTurn implements Prompts, Ending {
  readonly #options: TurnOptions
  readonly turnId: string
  readonly sessionId: string
  readonly messageIds: string[]
  readonly #startedAt: number
  readonly #teller: Teller
  readonly #alarm = new Alarm()
  readonly #watch: Watch
  aborted: string | null = null
  stopped = false
  interrupted: string | null = null
  error: string | null = null
  /** Until its prompts have reached OpenCode: an abort that overtakes one would be lost. */
  sending: Promise<unknown> = Promise.resolve()
  /** When it has told its end. */
  readonly ended: Promise<void>
  #stopping: Promise<void> | null = null
  #isEnding = false
  #hangs: string | null = null
  #isIdle = false
  #heard = false
  #moved = false
  #modelBytes = 0

  constructor(options: TurnOptions, { turnId, sessionId, messageIds, startedAt, told }: Begun) {
    this.#options = options
    this.turnId = turnId
    this.sessionId = sessionId
    this.messageIds = messageIds
    this.#startedAt = startedAt
    this.#watch = new Watch(options.patience)
    const check = new ToolCheck(
      options.gate,
      () => this.takesText,
      // After a restart the agent does not know what the gate had allowed.
      (part) => told === undefined && this.#bypassed(part),
    )
    this.#teller = new Teller({
      turnId,
      rootSession: sessionId,
      since: startedAt,
      emit: options.emit,
      ...(told && { told }),
      ...(options.agentOf && { agentOf: options.agentOf }),
      onTool: (part, state) => check.see(part, state),
    })
    this.remember()
    options.gate.open(turnId)
    // An earlier process had begun it, and nothing of it runs any more.
    if (told) this.interrupted = 'The agent was restarted during the turn'
    this.ended = this.#work()
  }

  /** It runs, and nothing has asked for its end. */
  get takesText(): boolean {
    return this.aborted === null && this.interrupted === null && !this.#isEnding
  }

  hear(event: OpenCodeEvent): void {
    this.#heard = true
    this.#teller.hear(event)
    const session = tellerSession(event)
    if (session !== undefined && this.#teller.sessions.has(session)) this.#moved = true
    if (event.properties['sessionID'] !== this.sessionId) return
    if (event.type === 'session.error') this.error = transcriptError(event.properties['error'])
    if (event.type === 'session.error' || event.type === 'session.idle') this.#alarm.ring()
  }

  tick(): void {
    this.#teller.tick()
  }

  remember(): void {
    const { turnId, messageIds } = this
    this.#options.memory.save({ turn: { turnId, messageIds, startedAt: this.#startedAt } })
  }

  fail(reason: string): void {
    this.error = reason
    this.#alarm.ring()
  }

  /** OpenCode may have the prompt all the same, and would work on it after the turn's end: so it is ended. */
  async notAnswered(error: unknown): Promise<void> {
    this.error ??= messageOf(error)
    if (this.interrupted === null) await this.#kill('OpenCode did not answer the prompt')
    this.#alarm.ring()
  }

  /** First the open questions are denied, then OpenCode is told: it would still run a tool that is allowed late. */
  async abort(reason: string): Promise<void> {
    if (this.interrupted !== null || this.#isEnding) return
    this.aborted ??= reason
    this.#options.gate.close('The turn is being aborted')
    this.#stopping ??= this.#stop()
    await this.#stopping
  }

  /** OpenCode is gone. The turn ends when it is back, so that what it had stored can be told first. */
  died(): void {
    this.#options.memory.save({ loss: turnLossNotice(this.#hangs) })
    this.interrupted ??=
      this.#hangs === null ? 'OpenCode died during the turn' : `${this.#hangs}: it was restarted`
    this.#alarm.ring()
  }

  /** Asks OpenCode to abort, and kills it if that takes more than a few seconds. */
  async #stop(): Promise<void> {
    const { opencode, patience } = this.#options
    void sleep(patience.abortMs).then(() => {
      if (this.stopped || this.interrupted !== null || this.#isEnding) return undefined
      return this.#kill('OpenCode has not carried out the abort')
    })
    const path = `/session/${this.sessionId}/abort`
    await this.sending
      .then(opencode)
      .then((running) => running.request('POST', path, undefined, patience.abortMs))
      .catch((error: unknown) => log('abort.failed', { reason: messageOf(error) }))
    this.#alarm.ring()
  }

  async #kill(reason: string): Promise<void> {
    log('opencode.hangs', { turnId: this.turnId, reason })
    this.#hangs = reason
    await this.#options.killOpenCode()
  }

  async #work(): Promise<void> {
    // Not before the constructor is done.
    await Promise.resolve()
    let lookedAt = Date.now()
    while (this.interrupted === null) {
      const isClose = this.#isIdle || this.aborted !== null
      await this.#alarm.wait(isClose ? 100 : this.#options.patience.lookEveryMs)
      if (this.interrupted !== null) break
      const prompts = this.messageIds.length
      const verdict = await this.#look(Date.now() - lookedAt)
      lookedAt = Date.now()
      // A prompt that was merged meanwhile is not answered yet.
      if (verdict === 'over' && this.messageIds.length === prompts) break
      if (typeof verdict === 'object') await this.#kill(verdict.hangs)
    }
    // It must not arrive after the turn's end.
    await this.sending
    await this.#finish()
  }

  async #look(afterMs: number): Promise<Verdict> {
    const { gate, modelBytes, patience } = this.#options
    const begunAt = Date.now()
    const opencode = await this.#options.opencode()
    const state = await lookAtTranscript(opencode, this, patience.probeMs)
    this.#isIdle = state === 'idle'
    const bytes = modelBytes()
    const moved = this.#moved || bytes !== this.#modelBytes
    const look = {
      state,
      // If the agent itself stood still, that time does not count.
      afterMs: Math.min(afterMs + Date.now() - begunAt, patience.lookEveryMs + patience.probeMs),
      heard: this.#heard,
      moved,
      asking: gate.unanswered().length > 0,
      atTool: this.#teller.isAtTool || (this.#watch.isQuiet && (await this.#hasTool(opencode))),
      stopping: this.error !== null || this.aborted !== null,
    }
    this.#heard = this.#moved = false
    this.#modelBytes = bytes
    return this.#watch.see(look)
  }

  /** The stream may have missed its start. */
  async #hasTool(opencode: OpenCode): Promise<boolean> {
    const messages = await this.#load(opencode).catch(() => [])
    return hasRunningTool(messages)
  }

  async #finish(): Promise<void> {
    this.#isEnding = true
    const { gate, emit, memory } = this.#options
    gate.close('The turn has ended')
    const messages = await this.#settle()
    const diff = await this.#options.diff().catch((error: unknown) => {
      log('diff.failed', { reason: messageOf(error) })
      return null
    })
    await crashPoint('turn.before-end')
    const { value } = shorten({ turnId: this.turnId, ...transcriptEnd(this, messages), diff })
    if (diff && value.diff && value.diff.patch !== diff.patch)
      value.diff = { ...value.diff, truncated: true }
    emit('turn.ended', value)
    void crashPoint('turn.after-end').then(() =>
      this.#options.afterTurn(() => memory.forget(this.turnId)),
    )
  }

  /** All that OpenCode has of the turn. One that hangs just now is asked again after its restart. */
  async #settle(): Promise<Message[]> {
    try {
      return await this.#reconcile()
    } catch (error) {
      log('reconcile.failed', { reason: messageOf(error) })
    }
    try {
      if (this.interrupted === null) await this.#kill('OpenCode did not say how the turn ended')
      return await this.#reconcile()
    } catch (error) {
      log('reconcile.failed', { reason: messageOf(error) })
      this.interrupted ??= 'OpenCode did not say how the turn ended'
      return []
    }
  }

  async #reconcile(): Promise<Message[]> {
    const opencode = await this.#options.opencode()
    const why = `Interrupted: ${this.interrupted ?? 'the turn ended'}`
    const others = await loadOtherTranscripts(opencode, this.sessionId, this.#startedAt)
    const messages = await loadTranscript(opencode, this)
    this.#teller.reconcile(others, why)
    this.#teller.reconcile(messages, why)
    if (!messages.some(({ info }) => info.role === 'assistant'))
      this.error ??= 'OpenCode did not answer'
    return messages
  }

  async #load(opencode: OpenCode): Promise<Message[]> {
    return [
      ...(await loadTranscript(opencode, this)),
      ...(await loadOtherTranscripts(opencode, this.sessionId, this.#startedAt)),
    ]
  }

  /** One that is not the turn's: its own abort does not reach it. */
  async #abortOther(sessionId: string): Promise<void> {
    const { opencode, patience } = this.#options
    await opencode()
      .then((running) =>
        running.request('POST', `/session/${sessionId}/abort`, undefined, patience.abortMs),
      )
      .catch((error: unknown) => log('abort.failed', { reason: messageOf(error) }))
  }

  #bypassed(part: ToolPart): void {
    const { sessionID, ...call } = part
    log('gate.bypassed', { tool: part.tool, callId: part.callId, sessionID })
    this.#options.emit(
      'gate.bypassed',
      shorten({ ...call, turnId: this.turnId, sessionId: sessionID }).value,
    )
    void this.abort(`"${part.tool}" ran without the gate's consent`)
    if (sessionID !== this.sessionId) void this.#abortOther(sessionID)
  }
}

/** A sleep that can be cut short, also before it has begun. */
class Alarm {
  #rung = false
  #wake = () => {}

  ring(): void {
    this.#rung = true
    this.#wake()
  }

  async wait(ms: number): Promise<void> {
    if (!this.#rung) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, ms)
        this.#wake = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    }
    this.#rung = false
  }
}
