// The gate: the questions of the running turn and their answers. A tool runs only if the control plane has allowed
// exactly this input, and only while its turn lasts. An answer is final: what was denied because a turn ended stays
// denied. Without a turn, and after 30 s without a link, every question is denied. The relay asks and confirms, the
// uplink sends the questions and brings the answers, a turn opens and closes the gate.

import { createHash } from 'node:crypto'
import type { GateDecision } from '../../src/contract/ask.ts'
import { canonicalJson } from '../../src/contract/canonical.ts'

/** Without a link for this long, an open question is refused. */
const noLinkMs = 30_000
/** A question that is still open when it is asked again after this long is sent again: it may have been lost on its way. */
const sendAgainMs = 30_000

export interface Question {
  askId: string
  tool: string
  callId: string
  sessionID: string
  input: unknown
}
export interface Answer {
  decision: GateDecision
  reason: string
}
export interface Ask extends Question {
  /** The turn in which it was asked. */
  turnId: string | null
  inputHash: string
  askedAt: number
  answer: Answer | null
}
interface OpenAsk extends Ask {
  sentAt: number
  waiting: Set<(answer: Answer) => void>
  /** The tool part that ran under this answer. */
  usedBy: string | null
  /** The gateway call that was made under it. */
  calledAs: string | null
}

export interface ToolPart {
  partId: string
  messageId: string
  sessionID: string
  tool: string
  callId: string
  input: unknown
}

export const hashInput = (input: unknown): string =>
  createHash('sha256')
    .update(canonicalJson(input ?? null))
    .digest('hex')

export class Gate {
  readonly #onAsk: (ask: Ask) => void
  readonly #now: () => number
  readonly #asks = new Map<string, OpenAsk>()
  #closedBecause: string | null = 'No turn is running'
  #turnId: string | null = null
  #linkDownAt: number | null

  constructor(onAsk: (ask: Ask) => void, now: () => number = Date.now) {
    this.#onAsk = onAsk
    this.#now = now
    this.#linkDownAt = now()
  }

  get turnId(): string | null {
    return this.#turnId
  }

  /** A turn begins. Answers of earlier turns count no more. */
  open(turnId: string): void {
    this.#asks.clear()
    this.#turnId = turnId
    this.#closedBecause = null
  }

  /**
   * Before OpenCode is told to abort, and at the end of a turn: every open question is refused, and every later one.
   */
  close(reason: string): void {
    this.#closedBecause = reason
    for (const ask of this.#asks.values()) this.#settle(ask, { decision: 'deny', reason })
  }

  /** The answer, or undefined if there is none after `waitMs`: the same id asks again. */
  async ask(question: Question, waitMs: number): Promise<Answer | undefined> {
    const known = this.#asks.get(question.askId)
    const inputHash = hashInput(question.input)
    if (known && isChanged(known, question, inputHash)) return changed
    const ask =
      known ??
      this.#add({
        ...question,
        turnId: this.#turnId,
        inputHash,
        askedAt: this.#now(),
        answer: null,
      })
    if (ask.answer === null && this.#now() - ask.sentAt >= sendAgainMs) this.#send(ask)
    return ask.answer ?? (await waitFor(ask, waitMs))
  }

  /**
   * Asked again right before the tool runs: an allow holds only while its turn does, and for this input. Another plugin
   * may hold the arguments and change them while the question waits.
   */
  confirm(question: Question): Answer {
    const ask = this.#asks.get(question.askId)
    if (this.#closedBecause !== null) return { decision: 'deny', reason: this.#closedBecause }
    if (!ask?.answer) return { decision: 'deny', reason: 'The question is not answered' }
    return isChanged(ask, question, hashInput(question.input)) ? changed : ask.answer
  }

  answer(askId: string, answer: Answer): void {
    const ask = this.#asks.get(askId)
    if (ask) this.#settle(ask, answer)
  }

  unanswered(): Ask[] {
    return [...this.#asks.values()].filter((ask) => ask.answer === null)
  }

  linkUp(): void {
    this.#linkDownAt = null
  }

  linkDown(): void {
    this.#linkDownAt ??= this.#now()
  }

  /** To be called every second or so. */
  tick(): void {
    if (this.#linkDownAt === null) return
    for (const ask of this.unanswered()) {
      const aloneForMs = this.#now() - Math.max(this.#linkDownAt, ask.askedAt)
      if (aloneForMs >= noLinkMs)
        this.answer(ask.askId, { decision: 'deny', reason: 'The control plane cannot be reached' })
    }
  }

  /** Whether an allow was given for exactly this call. One allow covers one part: call ids repeat. */
  covers(part: ToolPart): boolean {
    const fitting = this.#fitting(part).filter((ask) => ask.answer?.decision === 'allow')
    const ask =
      fitting.find((each) => each.usedBy === part.partId) ??
      fitting.find((each) => each.usedBy === null)
    if (!ask) return false
    ask.usedBy = part.partId
    return true
  }

  /** Whether a gateway tool may be called. One allow covers one call, however often that is sent. */
  admits(tool: string, toolCallId: string): boolean {
    if (this.#closedBecause !== null) return false
    const allowed = [...this.#asks.values()].filter(
      (ask) => ask.tool === tool && ask.answer?.decision === 'allow',
    )
    const ask =
      allowed.find((each) => each.calledAs === toolCallId) ??
      allowed.find((each) => each.calledAs === null)
    if (!ask) return false
    ask.calledAs = toolCallId
    return true
  }

  wasAsked(part: ToolPart): boolean {
    return this.#fitting(part).length > 0
  }

  #fitting(part: ToolPart): OpenAsk[] {
    const inputHash = hashInput(part.input)
    return [...this.#asks.values()].filter(
      (ask) =>
        ask.callId === part.callId &&
        ask.sessionID === part.sessionID &&
        ask.tool === part.tool &&
        ask.inputHash === inputHash,
    )
  }

  #add(ask: Ask): OpenAsk {
    const open: OpenAsk = { ...ask, sentAt: 0, waiting: new Set(), usedBy: null, calledAs: null }
    this.#asks.set(ask.askId, open)
    if (this.#closedBecause === null) this.#send(open)
    else this.#settle(open, { decision: 'deny', reason: this.#closedBecause })
    return open
  }

  #send(ask: OpenAsk): void {
    ask.sentAt = this.#now()
    this.#onAsk(ask)
  }

  #settle(ask: OpenAsk, answer: Answer): void {
    if (ask.answer !== null) return
    ask.answer = answer
    ask.input = null // from here on the hash is enough
    for (const resolve of ask.waiting) resolve(answer)
    ask.waiting.clear()
  }
}

const changed: Answer = {
  decision: 'deny',
  reason: 'The question was changed after it was asked',
}

const isChanged = (ask: Ask, question: Question, inputHash: string): boolean =>
  ask.inputHash !== inputHash || ask.tool !== question.tool || ask.callId !== question.callId

function waitFor(ask: OpenAsk, waitMs: number): Promise<Answer | undefined> {
  return new Promise((resolve) => {
    const done = (answer: Answer | undefined) => {
      clearTimeout(timer)
      ask.waiting.delete(done)
      resolve(answer)
    }
    const timer = setTimeout(() => done(undefined), waitMs)
    ask.waiting.add(done)
  })
}
