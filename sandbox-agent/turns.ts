import type { EventData } from '../src/contract/events.ts'
import type { CommandBody, CommandResult } from '../src/contract/link.ts'
import type { DiffReport } from '../src/contract/session.ts'
import { crashPoint } from './crash-points.ts'
import { type Emit, type Message, type Part, Teller } from './events.ts'
import type { Gate, ToolPart } from './gate.ts'
import { log, messageOf, sleep } from './log.ts'
import type { Memory } from './memory.ts'
import type { OpenCode, OpenCodeEvent } from './opencode.ts'
import { shorten } from './shorten.ts'
import type { ToldParts } from './spool.ts'

/** However quiet the stream is, OpenCode is asked so often whether it is still at work. */
const pollEveryMs = 5000
/** After its word that it is idle, the last message gets this long to be finished. */
const settleMs = 3000
/** Idle without ever having begun to answer. */
const neverBeganMs = 15_000
/** An abort that OpenCode does not carry out in this time ends OpenCode. */
const abortGraceMs = 20_000
/** A tool that runs this long without having asked has got past the gate. */
const askWithinMs = 10_000

const lossNotice =
  'Note from Gantry: OpenCode stopped unexpectedly during the last turn and was restarted. ' +
  'Work of that turn may be incomplete, and background processes were ended. Check the state of the workspace before you go on.'

export interface TurnsOptions {
  emit: Emit
  gate: Gate
  memory: Memory
  /** Waits until OpenCode is up; throws if it is not coming back. */
  opencode: () => Promise<OpenCode>
  /** Right before a prompt: the manifest is verified, and OpenCode restarted if it may have loaded something else. */
  beforePrompt: () => Promise<void>
  diff: () => Promise<DiffReport | null>
  killOpenCode: () => void
  afterTurn: () => void
  title: string
}

interface Turn {
  turnId: string
  sessionId: string
  messageIds: string[]
  startedAt: number
  teller: Teller
  /** Set by an abort: why. */
  aborted: string | null
  error: string | null
  /** OpenCode has died under it. */
  interrupted: boolean
  wake: () => void
  ended: Promise<void>
}

type End = Pick<EventData<'turn.ended'>, 'state' | 'reason'>

/** At most one turn at a time: from the prompt to `turn.ended`. */
export class Turns {
  readonly #options: TurnsOptions
  #turn: Turn | null = null

  constructor(options: TurnsOptions) {
    this.#options = options
  }

  get running(): boolean {
    return this.#turn !== null
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
    const sessionId = await this.#session(opencode)
    // A prompt sent twice under one id would double the user's text.
    const known = await opencode.request('GET', `/session/${sessionId}/message/${body.messageId}`)
    if (known !== null) return { sent: false }
    const turn = this.#begin(body, sessionId, Date.now(), { started: [], ended: [] })
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
    const notice = this.#options.memory.value.announceLoss
      ? [{ type: 'text', text: lossNotice, synthetic: true }]
      : []
    await crashPoint('prompt.before-send')
    await opencode.request('POST', `/session/${sessionId}/prompt_async`, {
      messageID: body.messageId,
      parts: [...notice, { type: 'text', text: body.text }],
    })
    await crashPoint('prompt.after-send')
    if (notice.length > 0) this.#options.memory.save({ announceLoss: false })
  }

  /** First the open questions are denied, then OpenCode is told: it would still run a tool that is allowed late. */
  async abort(turnId: string | null, reason = 'aborted'): Promise<void> {
    const turn = this.#turn
    if (!turn || (turnId !== null && turnId !== turn.turnId)) return
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
    this.#options.memory.save({ announceLoss: true })
    const body = { turnId: left.turnId, messageId: left.messageIds[0] ?? '' }
    const turn = this.#begin(body, sessionId ?? '', left.startedAt, told)
    turn.messageIds.splice(0, turn.messageIds.length, ...left.messageIds)
    turn.interrupted = true
    turn.wake()
    await turn.ended
  }

  async #session(opencode: OpenCode): Promise<string> {
    const known = this.#options.memory.value.opencodeSessionId
    if (known !== null && (await opencode.request('GET', `/session/${known}`)) !== null)
      return known
    // With a title of its own, OpenCode does not ask the model for one.
    const created = (await opencode.request('POST', '/session', {
      title: this.#options.title,
    })) as { id: string }
    this.#options.memory.save({ opencodeSessionId: created.id })
    return created.id
  }

  #begin(
    body: Pick<CommandBody<'prompt'>, 'turnId' | 'messageId'>,
    sessionId: string,
    startedAt: number,
    told: ToldParts,
  ): Turn {
    const { emit, gate } = this.#options
    const teller = new Teller({
      turnId: body.turnId,
      rootSession: sessionId,
      emit,
      told,
      onTool: (part, state) => this.#checkGate(turn, part, state),
    })
    const alarm = new Alarm()
    const turn: Turn = {
      turnId: body.turnId,
      sessionId,
      messageIds: [body.messageId],
      startedAt,
      teller,
      aborted: null,
      error: null,
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

  /** Every tool that ran must have been allowed, with exactly this input. */
  #checkGate(turn: Turn, part: ToolPart, state: NonNullable<Part['state']>): void {
    const { gate } = this.#options
    if (gate.covers(part)) return
    if (state.status === 'completed') return this.#bypassed(turn, part)
    if (state.status === 'running') {
      setTimeout(() => {
        if (this.#turn === turn && turn.aborted === null && !gate.wasAsked(part))
          this.#bypassed(turn, part)
      }, askWithinMs).unref()
    } else if (state.status === 'error' && !gate.wasAsked(part) && turn.aborted === null) {
      // The gate's own refusals and OpenCode's aborts are errors of tools that did not run.
      const ran =
        state.metadata?.interrupted !== true &&
        !/^(Gantry refused|Tool execution aborted)/.test(state.error ?? '')
      if (ran) this.#bypassed(turn, part)
    }
  }

  readonly #reported = new Set<string>()

  #bypassed(turn: Turn, part: ToolPart): void {
    if (this.#reported.has(part.partId)) return
    this.#reported.add(part.partId)
    const { turnId, sessionId } = turn
    const { partId, tool, callId, input, sessionID } = part
    log('gate.bypassed', { tool, callId, sessionID })
    const messageId = 'messageId' in part ? String(part.messageId) : ''
    const data = {
      turnId,
      sessionId: sessionID || sessionId,
      messageId,
      partId,
      tool,
      callId,
      input,
    }
    this.#options.emit('gate.bypassed', shorten(data).value)
    this.abort(turnId, `"${tool}" ran without the gate's consent`).catch((error: unknown) =>
      log('abort.failed', { reason: messageOf(error) }),
    )
  }

  async #watch(turn: Turn, alarm: Alarm): Promise<void> {
    let idleSince: number | null = null
    let abortedAt: number | null = null
    while (!turn.interrupted) {
      await alarm.wait(idleSince === null ? pollEveryMs : 100)
      if (turn.interrupted) break
      if (turn.aborted !== null) abortedAt ??= Date.now()
      const state = await this.#look(turn).catch(() => 'unknown' as const)
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

  /** finished: idle, and the last prompt has an answer that is complete or failed. */
  async #look(turn: Turn): Promise<'busy' | 'idle' | 'finished'> {
    const opencode = await this.#options.opencode()
    const statuses = (await opencode.request('GET', '/session/status')) as Record<
      string,
      { type: string }
    >
    const status = statuses[turn.sessionId]?.type ?? 'idle'
    if (status !== 'idle') return 'busy'
    const messages = await this.#messages(opencode, turn)
    const last = messages.findLast(({ info }) => info.role === 'assistant')
    const answered = last !== undefined && last.info.parentID === turn.messageIds.at(-1)
    return answered && (last.info.time?.completed !== undefined || last.info.error !== undefined)
      ? 'finished'
      : 'idle'
  }

  /** Of the session itself: from the turn's first prompt on. */
  async #messages(opencode: OpenCode, turn: Turn): Promise<Message[]> {
    const all = ((await opencode.request('GET', `/session/${turn.sessionId}/message`)) ??
      []) as Message[]
    const start = all.findIndex(({ info }) => info.id === turn.messageIds[0])
    return start === -1 ? [] : all.slice(start)
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
    const { value } = shorten({
      turnId: turn.turnId,
      ...endOf(turn, messages),
      text: lastText(messages),
      diff,
    })
    if (diff && value.diff && value.diff.patch !== diff.patch)
      value.diff = { ...value.diff, truncated: true }
    emit('turn.ended', value)
    this.#turn = null
    memory.save({ turn: null })
    await crashPoint('turn.after-end')
    this.#options.afterTurn()
  }

  async #reconcile(turn: Turn, reason: string): Promise<Message[]> {
    const opencode = await this.#options.opencode()
    const messages = await this.#messages(opencode, turn)
    for (const child of await this.#children(opencode, turn.sessionId)) {
      const all = ((await opencode.request('GET', `/session/${child}/message`)) ?? []) as Message[]
      // A sub-agent's session may have been continued from an earlier turn.
      turn.teller.reconcile(
        all.filter(({ info }) => (info.time?.created ?? 0) >= turn.startedAt),
        reason,
      )
    }
    turn.teller.reconcile(messages, reason)
    return messages
  }

  async #children(opencode: OpenCode, sessionId: string): Promise<string[]> {
    const children = ((await opencode.request('GET', `/session/${sessionId}/children`)) ?? []) as {
      id: string
    }[]
    const below = await Promise.all(children.map(({ id }) => this.#children(opencode, id)))
    return [...children.map(({ id }) => id), ...below.flat()]
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

function endOf(turn: Turn, messages: Message[]): End {
  if (turn.interrupted && turn.aborted === null)
    return { state: 'interrupted', reason: 'OpenCode died during the turn' }
  if (turn.aborted !== null) return { state: 'aborted', reason: turn.aborted }
  const failure = messages.findLast(({ info }) => info.role === 'assistant')?.info.error
  if (failure?.name === 'MessageAbortedError')
    return { state: 'aborted', reason: 'Aborted in OpenCode' }
  const reason = failure ? errorText(failure) : turn.error
  return reason === null ? { state: 'completed', reason: null } : { state: 'failed', reason }
}

function lastText(messages: Message[]): string | null {
  const texts = messages
    .filter(({ info }) => info.role === 'assistant')
    .flatMap(({ parts }) => parts.filter((part) => part.type === 'text' && part.text))
  return texts.at(-1)?.text ?? null
}

function errorText(error: unknown): string {
  const { name, data } = (error ?? {}) as { name?: string; data?: { message?: string } }
  return (data?.message ?? name ?? 'OpenCode reported an error').slice(0, 4000)
}
