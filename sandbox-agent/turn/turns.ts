// The line of prompts. At most one turn runs at a time: a prompt enters the line before anything is awaited, so that
// none overtakes another. The control plane has one running turn, so a prompt of another turn means that it has given
// up all turns before it in the line, and those are aborted. A turn that OpenCode got, or that was aborted before, ends
// with one `turn.ended`. The agent owns it; the commands prompt and abort, OpenCode's events and OpenCode's death come
// in here.

import type { CommandBody, CommandResult } from '../../src/contract/link.ts'
import { crashPoint } from '../crash-points.ts'
import { BetweenTurns } from './between-turns.ts'
import { log, messageOf, sleep } from '../log.ts'
import { idleLossNotice, turnNoticeParts } from './notice.ts'
import { type OpenCode, type OpenCodeEvent, Refused } from '../opencode/opencode.ts'
import { askingRules } from './permissions.ts'
import type { ToldParts } from '../memory/spool.ts'
import { knowsMessage, openTranscriptSession } from '../opencode/transcript.ts'
import { type TurnOptions, WorkingTurn } from './working-turn.ts'

interface TurnsOptions extends TurnOptions {
  /** Right before a prompt: the manifest is verified, and OpenCode restarted if it may have loaded something else. */
  beforePrompt: () => Promise<void>
  title: string
  /** The session is an attempt of an eval run. */
  beginAttempt?: (attempt: NonNullable<Prompt['attempt']>) => void
}

type Prompt = CommandBody<'prompt'>
type Sent = CommandResult<'prompt'>

/** A prompt in the line: the first is with OpenCode or on its way there, the others wait. */
interface Queued {
  turnId: string
  sent: Promise<Sent>
  /** Why it was aborted before OpenCode had it. Its end is told then. */
  aborted: string | null
  turn: WorkingTurn | null
  /** When the next one may begin. */
  left: Promise<void>
  leave: () => void
}

/** How many turns that were aborted before their prompt came are remembered. */
const maxAbortedEarly = 100

export class Turns {
  readonly #options: TurnsOptions
  readonly #line: Queued[] = []
  /** Turns that were aborted before their prompt came, and why. */
  readonly #abortedEarly = new Map<string, string>()
  readonly #between: BetweenTurns

  constructor(options: TurnsOptions) {
    this.#options = options
    this.#between = new BetweenTurns(options)
  }

  /** The turn that the control plane takes for running. */
  get current(): string | null {
    const last = this.#line.at(-1)
    return last && last.aborted === null ? last.turnId : null
  }

  hear(event: OpenCodeEvent): void {
    this.#between.hear(event, this.#working === null)
    this.#working?.hear(event)
  }

  tick(): void {
    this.#working?.tick()
  }

  /** A prompt that is delivered again gets the result of the first, wherever that is in the line. */
  async prompt(body: Prompt): Promise<Sent> {
    if (body.steer) return this.#steer(body)
    const known = this.#line.find(({ turnId }) => turnId === body.turnId)
    if (known) return known.sent
    const queued = this.#take(body.turnId)
    const before = this.#line.slice(0, -1)
    for (const each of before) void this.#abort(each, 'The control plane has begun another turn')
    queued.sent = this.#serve(queued, before.at(-1), body)
    return queued.sent
  }

  async abort(turnId: string | null, reason = 'aborted'): Promise<void> {
    const chosen = this.#line.filter((queued) => turnId === null || queued.turnId === turnId)
    await Promise.all(chosen.map((queued) => this.#abort(queued, reason)))
    if (chosen.length > 0 || turnId === null) return
    this.#abortedEarly.set(turnId, reason)
    const [oldest] = this.#abortedEarly.keys()
    if (this.#abortedEarly.size > maxAbortedEarly && oldest) this.#abortedEarly.delete(oldest)
  }

  /** Bounded: for an orderly stop. */
  async abortAndWait(reason: string, waitMs: number): Promise<void> {
    const turn = this.#working
    if (!turn) return
    turn.stopped = turn.aborted === null
    this.#options.gate.close('The sandbox is being stopped')
    await Promise.race([turn.abort(reason).then(() => turn.ended), sleep(waitMs)])
  }

  opencodeDied(): void {
    const { gate, memory } = this.#options
    gate.close('OpenCode has died')
    if (this.#working) this.#working.died()
    else if (memory.value.opencodeSessionId !== null)
      memory.save({ loss: memory.value.loss ?? idleLossNotice })
  }

  /** After a restart of the agent: the turn it had begun is over. */
  async endForgotten(told: ToldParts): Promise<void> {
    const { memory } = this.#options
    const { turn: left, opencodeSessionId } = memory.value
    if (!left) return
    if (told.over) return memory.forget(left.turnId)
    const queued = this.#take(left.turnId)
    this.#between.turnBegins(left.turnId)
    const turn = new WorkingTurn(this.#options, {
      ...left,
      sessionId: opencodeSessionId ?? '',
      told,
    })
    turn.died()
    this.#occupy(queued, turn)
    await queued.left
  }

  get #working(): WorkingTurn | null {
    return this.#line[0]?.turn ?? null
  }

  #take(turnId: string): Queued {
    const { promise: left, resolve } = Promise.withResolvers<void>()
    const leave = () => {
      const at = this.#line.indexOf(queued)
      if (at !== -1) this.#line.splice(at, 1)
      resolve()
    }
    const sent = Promise.resolve({ sent: false })
    const queued: Queued = { turnId, sent, aborted: null, turn: null, left, leave }
    this.#line.push(queued)
    return queued
  }

  #occupy(queued: Queued, turn: WorkingTurn): void {
    queued.turn = turn
    void turn.ended
      .catch((error: unknown) => log('turn.failed', { reason: messageOf(error) }))
      .finally(() => {
        this.#between.turnEnded()
        queued.leave()
      })
  }

  async #serve(queued: Queued, before: Queued | undefined, body: Prompt): Promise<Sent> {
    const early = this.#abortedEarly.get(queued.turnId)
    this.#abortedEarly.delete(queued.turnId)
    if (early !== undefined) await this.#abort(queued, early)
    try {
      await before?.left
      const ready = queued.aborted === null ? await this.#prepare(body) : null
      // Aborted while it waited: never sent.
      if (!ready || queued.aborted !== null) return this.#leaveUnsent(queued)
      return await this.#begin(queued, ready, body)
    } catch (error) {
      if (queued.aborted !== null) return this.#leaveUnsent(queued)
      queued.leave()
      throw error
    }
  }

  #leaveUnsent(queued: Queued): Sent {
    queued.leave()
    return { sent: false }
  }

  /** Null: OpenCode has this prompt already. Sent twice under one id it would double the user's text. */
  async #prepare(body: Prompt): Promise<{ opencode: OpenCode; sessionId: string } | null> {
    const { memory, title, beforePrompt } = this.#options
    await beforePrompt()
    if (body.attempt) this.#options.beginAttempt?.(body.attempt)
    const opencode = await this.#answering()
    const asks = body.attempt === undefined ? undefined : askingRules
    const sessionId = await openTranscriptSession(opencode, memory, title, asks)
    if (await knowsMessage(opencode, sessionId, body.messageId)) return null
    return { opencode, sessionId }
  }

  /** An OpenCode that answers. One that hangs since the last turn is killed, and the next one is waited for. */
  async #answering(): Promise<OpenCode> {
    const { probeMs, missedProbes } = this.#options.patience
    for (let missed = 0; ;) {
      const opencode = await this.#options.opencode()
      try {
        await opencode.request('GET', '/session/status', undefined, probeMs)
        return opencode
      } catch (error) {
        missed += 1
        log('opencode.silent', { reason: messageOf(error), missed })
        if (missed > 2 * missedProbes) throw error
      }
      if (missed === missedProbes) await this.#options.killOpenCode()
    }
  }

  async #begin(
    queued: Queued,
    { opencode, sessionId }: { opencode: OpenCode; sessionId: string },
    body: Prompt,
  ): Promise<Sent> {
    const { turnId, messageId } = body
    const begun = { turnId, sessionId, messageIds: [messageId], startedAt: Date.now() }
    this.#between.turnBegins(turnId)
    const turn = new WorkingTurn(this.#options, begun)
    this.#occupy(queued, turn)
    turn.sending = this.#send(opencode, sessionId, body).catch((error: unknown) =>
      error instanceof Refused ? turn.fail(messageOf(error)) : turn.notAnswered(error),
    )
    await turn.sending
    return { sent: true }
  }

  async #steer(body: Prompt): Promise<Sent> {
    const turn = this.#runningOne(body.turnId)
    const opencode = await this.#options.opencode()
    if (await knowsMessage(opencode, turn.sessionId, body.messageId)) return { sent: false }
    // Looked at again after the wait: what is merged into a turn that has ended would run without a gate.
    if (this.#runningOne(body.turnId) !== turn) throw notRunning(body.turnId)
    turn.messageIds.push(body.messageId)
    turn.remember()
    const sent = this.#send(opencode, turn.sessionId, body)
    turn.sending = sent.catch((error: unknown) =>
      error instanceof Refused ? undefined : turn.notAnswered(error),
    )
    await sent
    return { sent: true }
  }

  #runningOne(turnId: string): WorkingTurn {
    const turn = this.#working
    if (turn?.turnId !== turnId || !turn.takesText) throw notRunning(turnId)
    return turn
  }

  async #send(opencode: OpenCode, sessionId: string, body: Prompt): Promise<void> {
    const { memory } = this.#options
    const { loss } = memory.value
    const agent = body.agent ?? opencode.agent
    await crashPoint('prompt.before-send')
    await opencode.request('POST', `/session/${sessionId}/prompt_async`, {
      messageID: body.messageId,
      ...(agent !== undefined && { agent }),
      parts: [...turnNoticeParts(body.notice, loss), { type: 'text', text: body.text }],
    })
    await crashPoint('prompt.after-send')
    if (loss !== null) memory.save({ loss: null })
  }

  async #abort(queued: Queued, reason: string): Promise<void> {
    if (queued.turn) return queued.turn.abort(reason)
    if (queued.aborted !== null) return
    queued.aborted = reason
    const end = { turnId: queued.turnId, state: 'aborted', text: null, diff: null } as const
    this.#options.emit('turn.ended', { ...end, reason })
  }
}

const notRunning = (turnId: string) => new Error(`Cannot steer turn "${turnId}": it is not running`)
