import type { CommandBody, CommandResult } from '../src/contract/link.ts'
import type { DiffReport } from '../src/contract/diff.ts'
import { Alarm } from './alarm.ts'
import { crashPoint } from './crash-points.ts'
import { type Emit, type Message, Teller } from './events.ts'
import type { Gate, ToolPart } from './gate.ts'
import { log, messageOf, sleep } from './log.ts'
import type { Memory } from './memory.ts'
import { noticeParts } from './notice.ts'
import type { OpenCode, OpenCodeEvent } from './opencode.ts'
import { shorten } from './shorten.ts'
import type { ToldParts } from './spool.ts'
import { ToolCheck } from './tool-check.ts'
import {
  type Ending,
  endOf,
  errorText,
  loadChildMessages,
  loadMessages,
  lookAt,
  openSession,
  type Prompts,
} from './transcript.ts'

/** However quiet the stream is, OpenCode is asked so often whether it is still at work. */
const pollEveryMs = 5000
/** After its word that it is idle, the last message gets this long to be finished. */
const settleMs = 3000
/** Idle without ever having begun to answer. */
const neverBeganMs = 15_000
/** An abort that OpenCode does not carry out in this time ends OpenCode. */
const abortGraceMs = 20_000

export interface TurnsOptions {
  emit: Emit
  gate: Gate
  memory: Memory
  /** Waits until OpenCode is up. */
  opencode: () => Promise<OpenCode>
  /** Right before a prompt: the manifest is verified, and OpenCode restarted if it may have loaded something else. */
  beforePrompt: () => Promise<void>
  diff: () => Promise<DiffReport | null>
  killOpenCode: () => void
  /** Once the end is on the disk: what is forgotten before it would never end. */
  afterTurn: (forget: () => void) => void
  title: string
}

interface Turn extends Prompts, Ending {
  turnId: string
  startedAt: number
  teller: Teller
  wake: () => void
  ended: Promise<void>
}

/** At most one turn at a time: from the prompt to `turn.ended`. */
export class Turns {
  readonly #options: TurnsOptions
  #turn: Turn | null = null
  /** Turns that were aborted while their prompt waited for OpenCode. */
  readonly #abortedEarly = new Set<string>()

  constructor(options: TurnsOptions) {
    this.#options = options
  }

  hear(event: OpenCodeEvent): void {
    const turn = this.#turn
    if (!turn) return
    turn.teller.hear(event)
    if (event.properties['sessionID'] !== turn.sessionId) return
    if (event.type === 'session.error') turn.error = errorText(event.properties['error'])
    if (event.type === 'session.error' || event.type === 'session.idle') turn.wake()
  }

  tick(): void {
    this.#turn?.teller.tick()
  }

  async prompt(body: CommandBody<'prompt'>): Promise<CommandResult<'prompt'>> {
    if (body.steer) return this.#steer(body)
    if (this.#turn?.turnId === body.turnId) return { sent: true }
    if (this.#turn) throw new Error(`Cannot start turn "${body.turnId}": another one is running`)
    await this.#options.beforePrompt()
    const opencode = await this.#options.opencode()
    const sessionId = await openSession(opencode, this.#options.memory, this.#options.title)
    // A prompt sent twice under one id would double the user's text.
    const known = await opencode.request('GET', `/session/${sessionId}/message/${body.messageId}`)
    if (known !== null) return { sent: false }
    const turn = this.#begin(body, sessionId, Date.now())
    if (this.#abortedEarly.delete(body.turnId)) {
      await this.abort(body.turnId)
      return { sent: false }
    }
    try {
      await this.#send(opencode, sessionId, body)
    } catch (error) {
      turn.error = messageOf(error)
      turn.wake()
    }
    return { sent: true }
  }

  async #steer(body: CommandBody<'prompt'>): Promise<CommandResult<'prompt'>> {
    const turn = this.#turn
    if (turn?.turnId !== body.turnId || turn.aborted !== null) {
      throw new Error(`Cannot steer turn "${body.turnId}": it is not running`)
    }
    const opencode = await this.#options.opencode()
    const known = await opencode.request(
      'GET',
      `/session/${turn.sessionId}/message/${body.messageId}`,
    )
    if (known !== null) return { sent: false }
    turn.messageIds.push(body.messageId)
    this.#remember(turn)
    await this.#send(opencode, turn.sessionId, body)
    return { sent: true }
  }

  async #send(opencode: OpenCode, sessionId: string, body: CommandBody<'prompt'>): Promise<void> {
    const { announceLoss } = this.#options.memory.value
    await crashPoint('prompt.before-send')
    await opencode.request('POST', `/session/${sessionId}/prompt_async`, {
      messageID: body.messageId,
      parts: [...noticeParts(body.notice, announceLoss), { type: 'text', text: body.text }],
    })
    await crashPoint('prompt.after-send')
    if (announceLoss) this.#options.memory.save({ announceLoss: false })
  }

  /** First the open questions are denied, then OpenCode is told: it would still run a tool that is allowed late. */
  async abort(turnId: string | null, reason = 'aborted'): Promise<void> {
    const turn = this.#turn
    if (!turn || (turnId !== null && turnId !== turn.turnId)) {
      if (turnId !== null) this.#abortedEarly.add(turnId)
      return
    }
    turn.aborted ??= reason
    this.#options.gate.close('The turn is being aborted')
    const opencode = await this.#options.opencode()
    await opencode.request('POST', `/session/${turn.sessionId}/abort`)
    turn.wake()
  }

  /** Bounded: for an orderly stop. */
  async abortAndWait(reason: string, waitMs: number): Promise<void> {
    const turn = this.#turn
    if (!turn) return
    turn.stopped = turn.aborted === null
    this.#options.gate.close('The sandbox is being stopped')
    await Promise.race([this.abort(null, reason).then(() => turn.ended), sleep(waitMs)]).catch(
      () => undefined,
    )
  }

  /** OpenCode is gone. The turn ends when it is back, so that what it had stored can be told first. */
  opencodeDied(): void {
    const turn = this.#turn
    this.#options.gate.close('OpenCode has died')
    if (!turn) return
    turn.interrupted = true
    this.#options.memory.save({ announceLoss: true })
    turn.wake()
  }

  /** After a restart of the agent: the turn it had begun is over. */
  async endForgotten(told: ToldParts): Promise<void> {
    const left = this.#options.memory.value.turn
    const sessionId = this.#options.memory.value.opencodeSessionId
    if (!left) return
    if (told.over) return this.#options.memory.forget(left.turnId)
    this.#options.memory.save({ announceLoss: true })
    const body = { turnId: left.turnId, messageId: left.messageIds[0] ?? '' }
    const turn = this.#begin(body, sessionId ?? '', left.startedAt, told)
    turn.messageIds.splice(0, turn.messageIds.length, ...left.messageIds)
    turn.interrupted = true
    turn.wake()
    await turn.ended
  }

  #begin(
    body: Pick<CommandBody<'prompt'>, 'turnId' | 'messageId'>,
    sessionId: string,
    startedAt: number,
    told?: ToldParts,
  ): Turn {
    const { emit, gate } = this.#options
    const teller = new Teller({
      turnId: body.turnId,
      rootSession: sessionId,
      emit,
      ...(told && { told }),
      onTool: (part, state) => check.see(part, state),
    })
    const check = new ToolCheck(
      gate,
      () => this.#turn === turn && turn.aborted === null,
      // What the gate had allowed is not known to this process.
      (part) => told === undefined && this.#bypassed(turn, part),
    )
    const alarm = new Alarm()
    const turn: Turn = {
      turnId: body.turnId,
      sessionId,
      messageIds: [body.messageId],
      startedAt,
      teller,
      aborted: null,
      error: null,
      stopped: false,
      interrupted: false,
      wake: () => alarm.ring(),
      ended: Promise.resolve(),
    }
    this.#turn = turn
    this.#remember(turn)
    gate.open()
    turn.ended = this.#watch(turn, alarm)
    return turn
  }

  #remember({ turnId, messageIds, startedAt }: Turn): void {
    this.#options.memory.save({ turn: { turnId, messageIds, startedAt } })
  }

  #bypassed(turn: Turn, part: ToolPart): void {
    const { sessionID, ...call } = part
    log('gate.bypassed', { tool: part.tool, callId: part.callId, sessionID })
    this.#options.emit(
      'gate.bypassed',
      shorten({ ...call, turnId: turn.turnId, sessionId: sessionID }).value,
    )
    this.abort(turn.turnId, `"${part.tool}" ran without the gate's consent`).catch(
      (error: unknown) => log('abort.failed', { reason: messageOf(error) }),
    )
  }

  async #watch(turn: Turn, alarm: Alarm): Promise<void> {
    let idleSince: number | null = null
    let abortedAt: number | null = null
    while (!turn.interrupted) {
      await alarm.wait(idleSince === null ? pollEveryMs : 100)
      if (turn.interrupted) break
      if (turn.aborted !== null) abortedAt ??= Date.now()
      const opencode = await this.#options.opencode()
      const state = await lookAt(opencode, turn).catch(() => 'unknown' as const)
      if (state === 'finished') break
      if (state === 'idle') {
        idleSince ??= Date.now()
        if (
          Date.now() - idleSince >
          (turn.error !== null || turn.aborted !== null ? settleMs : neverBeganMs)
        )
          break
      } else {
        idleSince = null
      }
      if (abortedAt !== null && Date.now() - abortedAt > abortGraceMs) {
        this.#options.killOpenCode()
        abortedAt = Number.POSITIVE_INFINITY
      }
    }
    await this.#finish(turn)
  }

  async #finish(turn: Turn): Promise<void> {
    const { gate, emit, memory } = this.#options
    gate.close('The turn has ended')
    const reason = turn.interrupted ? 'Interrupted: OpenCode died' : 'Interrupted: the turn ended'
    const messages = await this.#reconcile(turn, reason).catch((error: unknown) => {
      log('reconcile.failed', { reason: messageOf(error) })
      return []
    })
    const diff = await this.#options.diff().catch((error: unknown) => {
      log('diff.failed', { reason: messageOf(error) })
      return null
    })
    await crashPoint('turn.before-end')
    const { value } = shorten({ turnId: turn.turnId, ...endOf(turn, messages), diff })
    if (diff && value.diff && value.diff.patch !== diff.patch)
      value.diff = { ...value.diff, truncated: true }
    emit('turn.ended', value)
    this.#turn = null
    await crashPoint('turn.after-end')
    this.#options.afterTurn(() => memory.forget(turn.turnId))
  }

  async #reconcile(turn: Turn, reason: string): Promise<Message[]> {
    const opencode = await this.#options.opencode()
    turn.teller.reconcile(await loadChildMessages(opencode, turn.sessionId, turn.startedAt), reason)
    const messages = await loadMessages(opencode, turn)
    turn.teller.reconcile(messages, reason)
    if (!messages.some(({ info }) => info.role === 'assistant'))
      turn.error ??= 'OpenCode did not answer'
    return messages
  }
}
