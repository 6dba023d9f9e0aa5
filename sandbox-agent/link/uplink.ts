// What the agent sends over the link, and what it receives. Events, results and questions arrive: they are sent again
// after each reconnect until the control plane has acknowledged or answered them. An event is on the disk before it is
// sent. The agent owns it; turns and the supervisor emit events through it.

import type { AgentEventKind } from '../../src/contract/agent-events.ts'
import type { EnclosureReport } from '../../src/contract/enclosure.ts'
import type { EventData } from '../../src/contract/events.ts'
import { AskId } from '../../src/contract/ids.ts'
import { type DownMessage, maxLinkMessageBytes, type UpMessage } from '../../src/contract/link.ts'
import type { Enforcement } from '../../src/contract/operation.ts'
import { crashPoint } from '../crash-points.ts'
import type { Ask, Gate } from '../gate/gate.ts'
import { Link, type LinkOptions } from './link.ts'
import { messageOf, sleep } from '../log.ts'
import type { Result, Results } from '../memory/memory.ts'
import type { RealPaths } from '../gate/real-paths.ts'
import { shorten } from '../shorten.ts'
import type { Spool } from '../memory/spool.ts'
import type { Token } from './token.ts'

const maxBatchItems = 200
/** A message of the link's largest size, less its frame. */
export const maxPayloadBytes = maxLinkMessageBytes - 64 * 1024
/** As much may be on its way unacknowledged; the rest waits on disk. */
const maxInFlight = 2000

export interface UplinkOptions extends Pick<LinkOptions, 'url' | 'boot' | 'onFenced' | 'isFenced'> {
  token: Token
  spool: Spool
  results: Results
  gate: Gate
  onCommand: (command: Extract<DownMessage, { t: 'command' }>) => Promise<void>
  /** The turn that this sandbox has, if it has one. */
  currentTurn: () => string | null
  /** What else is known of a question: who asks, and where its paths lead. */
  factsOf: (ask: Ask) => { agent?: string; subagent?: string } & RealPaths
}

type ReadyMessage = Extract<UpMessage, { t: 'ready' }>

export class Uplink {
  readonly #options: UplinkOptions
  readonly #link: Link
  #ready = false
  #found: Pick<ReadyMessage, 'enforces' | 'enclosure'> = {}
  #failed: string | null = null
  #sentSeq = 0
  #ackedSeq = 0
  #pumpScheduled = false
  #writing: Promise<void> = Promise.resolve()

  constructor(options: UplinkOptions) {
    this.#options = options
    const { url, boot, token, gate, onFenced, isFenced } = options
    this.#link = new Link({
      url,
      boot,
      onFenced,
      isFenced,
      token: () => token.value,
      isReady: () => this.#ready,
      onWelcome: (ackedSeq) => this.#welcome(ackedSeq),
      onMessage: (message) => void this.#receive(message),
      onDown: () => gate.linkDown(),
      onTick: () => this.#renewToken(),
    })
  }

  start(): void {
    this.#link.start()
  }

  /** Whether the control plane understands `alive`. */
  get beats(): boolean {
    return this.#link.protocol >= 2
  }

  /** To be called every minute, and when a turn comes. */
  alive(): void {
    const turnId = this.#options.currentTurn()
    if (turnId !== null && this.beats) this.#link.send({ t: 'alive', turnId })
  }

  ready(bootMs: number, enforces: Enforcement[], enclosure: EnclosureReport): void {
    this.#ready = true
    this.#found = { enforces, enclosure }
    this.#link.send({ t: 'ready', bootMs, ...this.#found })
  }

  failed(reason: string): void {
    this.#failed = reason.slice(0, 4000)
    this.#link.send({ t: 'failed', reason: this.#failed })
  }

  /** Writes the event to the disk, then sends it. */
  readonly emit = <K extends AgentEventKind>(kind: K, data: EventData<K>): void => {
    const at = Date.now()
    this.afterEmitted(async () => {
      await crashPoint('spool.before-append')
      this.#options.spool.append(kind, data, at)
      await crashPoint('spool.after-append')
      this.#schedulePump()
    })
  }

  /** Does the work after everything that was emitted before is on the disk. */
  afterEmitted(work: () => void | Promise<void>): void {
    this.#writing = this.#writing
      .then(work)
      .catch((error: unknown) => this.failed(`Cannot keep events: ${messageOf(error)}`))
  }

  sendResult(id: string, result: Result): void {
    this.#link.send({ t: 'result', commandId: id, ...result })
  }

  sendAsk(ask: Ask): void {
    if (ask.answer !== null) return
    // The hash is over the whole input; a very long one is shown shortened.
    const { value: input, shortened } = shorten(ask.input)
    const facts = this.#options.factsOf(ask)
    this.#link.send({
      t: 'ask',
      askId: AskId.parse(ask.askId),
      // Some vendors' call ids are longer than the link takes.
      tool: ask.tool.slice(0, 200),
      callId: ask.callId.slice(0, 200),
      opencodeSessionId: ask.sessionID.slice(0, 100),
      ...(ask.turnId !== null && { turnId: ask.turnId }),
      ...facts,
      input,
      shortened: shortened || facts.shortened,
      inputHash: ask.inputHash,
    })
  }

  /** Gives what is still owed a moment to arrive. */
  async stop(waitMs: number): Promise<void> {
    await this.#writing
    const until = Date.now() + waitMs
    while (this.#link.connected && this.#isOwing() && Date.now() < until) await sleep(20)
    this.#link.stop()
  }

  #isOwing(): boolean {
    const { spool, results } = this.#options
    return this.#ackedSeq < spool.lastSeq || results.unacknowledged().length > 0
  }

  // Events that are emitted together travel in one message.
  #schedulePump(): void {
    if (this.#pumpScheduled) return
    this.#pumpScheduled = true
    setImmediate(() => {
      this.#pumpScheduled = false
      this.#pump()
    })
  }

  #pump(): void {
    while (this.#link.connected && this.#sentSeq - this.#ackedSeq < maxInFlight) {
      const items = fittingBatch(this.#options.spool.after(this.#sentSeq, maxBatchItems))
      const last = items.at(-1)
      if (!last || !this.#link.send({ t: 'events', items })) return
      this.#sentSeq = last.seq
    }
  }

  #welcome(ackedSeq: number): void {
    const { gate, spool, results } = this.#options
    gate.linkUp()
    spool.ack(ackedSeq)
    this.#ackedSeq = ackedSeq
    this.#sentSeq = ackedSeq
    if (this.#failed !== null) this.#link.send({ t: 'failed', reason: this.#failed })
    else if (this.#ready) this.#link.send({ t: 'ready', bootMs: 0, ...this.#found })
    this.alive()
    this.#pump()
    for (const [id, result] of results.unacknowledged()) this.sendResult(id, result)
    for (const ask of gate.unanswered()) this.sendAsk(ask)
    this.#renewToken()
  }

  async #receive(message: Exclude<DownMessage, { t: 'welcome' }>): Promise<void> {
    const { spool, results, gate, token } = this.#options
    switch (message.t) {
      case 'ack':
        await crashPoint('ack.before')
        this.#ackedSeq = Math.max(this.#ackedSeq, message.seq)
        spool.ack(message.seq)
        return this.#pump()
      case 'command':
        return this.#options.onCommand(message)
      case 'resultAck':
        return results.ack(message.commandId)
      case 'answer':
        await crashPoint('answer.received')
        return gate.answer(message.askId, { decision: message.decision, reason: message.reason })
      case 'token':
        return token.replace(message.token)
    }
  }

  #renewToken(): void {
    if (this.#options.token.isAging(Date.now())) this.#link.send({ t: 'renew' })
  }
}

function fittingBatch<T>(items: T[]): T[] {
  let bytes = 0
  const end = items.findIndex((item, index) => {
    bytes += Buffer.byteLength(JSON.stringify(item)) + 1
    return index > 0 && bytes > maxPayloadBytes
  })
  return end === -1 ? items : items.slice(0, end)
}
