import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { CollectedFile } from '../../src/contract/artifact.ts'
import type { AgentEventKind } from '../../src/contract/agent-events.ts'
import { canonicalJson } from '../../src/contract/canonical.ts'
import { hashText } from '../../src/core/hash.ts'
import type { ExecutionReport } from '../../src/contract/operation.ts'
import {
  type AgentEvent,
  type CommandBody,
  type DownMessage,
  linkClose,
  type UpMessage,
} from '../../src/contract/link.ts'
import type { Client, Complain } from './client.ts'
import { type Execution, reportOf } from './executions.ts'
import type { Random } from './random.ts'

type Down<T extends DownMessage['t']> = Extract<DownMessage, { t: T }>
type Up<T extends UpMessage['t']> = Extract<UpMessage, { t: T }>

export interface AgentOptions {
  url: string
  sessionId: string
  generation: number
  token: string
  /** With the sandbox's token. */
  client: Client
  random: Random
  complain: Complain
  up: () => Promise<void>
}

/** Stands for the program in the sandbox: it lives on while the control plane dies under it. */
export class ChaosAgent {
  readonly options: AgentOptions
  /** Every event ever made, in order: number n is at n - 1. */
  readonly events: AgentEvent[] = []
  /** Decisions by ask; an answer that changes is a bug. */
  readonly decisions = new Map<string, string>()
  /** The message ids under which each turn's prompt came. */
  readonly prompts = new Map<string, Set<string>>()
  /** Every operation that it has carried out. */
  readonly executions: Execution[] = []
  fenced = false
  links = 0

  #acked = 0
  #socket: WebSocket | undefined
  #welcomed = false
  #stopped = false
  readonly #results = new Map<string, Up<'result'>>()
  readonly #acknowledged = new Set<string>()
  readonly #asks = new Map<string, { question: Up<'ask'>; answered: () => void }>()
  readonly #aborted = new Set<string>()
  /** Attempts that were begun: they are not begun again, however often they are delivered. */
  readonly #begun = new Set<string>()

  constructor(options: AgentOptions) {
    this.options = options
    void this.#keepLinked()
  }

  get settled(): boolean {
    return this.#acked === this.events.length && this.#asks.size === 0
  }

  notice(count: number): void {
    const { sessionId, generation } = this.options
    const from = this.events.length
    for (let i = 0; i < count; i++) {
      this.#add('agent.notice', { message: `${sessionId}.${generation}.${this.events.length + 1}` })
    }
    this.#sendEvents(from)
  }

  #emit(kind: AgentEventKind, data: Record<string, unknown>): void {
    this.#add(kind, data)
    this.#sendEvents(this.events.length - 1)
  }

  #add(kind: AgentEventKind, data: Record<string, unknown>): void {
    this.events.push({ seq: this.events.length + 1, at: Date.now(), kind, data })
  }

  /** Cuts the link; it is opened again by itself. */
  cut(): void {
    this.#socket?.close()
  }

  stop(): void {
    this.#stopped = true
    this.#socket?.close()
  }

  async #keepLinked(): Promise<void> {
    while (!this.#stopped && !this.fenced) {
      await this.options.up()
      if (this.#stopped) return
      await this.#link()
      await sleep(5 + this.options.random.below(25))
    }
  }

  #link(): Promise<void> {
    const { url, sessionId, token } = this.options
    const init = { headers: { authorization: `Bearer ${token}` } }
    const address = `${url.replace('http', 'ws')}/sandbox/${sessionId}/link`
    // Node's WebSocket takes headers, which the standard type does not know.
    const socket = new WebSocket(address, init)
    this.#socket = socket
    socket.addEventListener('open', () => {
      this.links += 1
      this.#raw({ t: 'hello', protocols: [1], agent: 'chaos', boot: 'chaos', ready: true })
    })
    socket.addEventListener('message', ({ data }) => {
      if (socket === this.#socket) this.#receive(JSON.parse(String(data)) as DownMessage)
    })
    socket.addEventListener('error', () => undefined)
    return new Promise((resolve) =>
      socket.addEventListener('close', ({ code, reason }) => {
        this.#welcomed = false
        if (code === linkClose.refused)
          this.options.complain(`The link of ${sessionId} was refused: ${reason}`)
        if (code === linkClose.fenced || code === linkClose.refused) this.fenced = true
        resolve()
      }),
    )
  }

  #raw(message: UpMessage): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message))
  }

  #send(message: UpMessage): void {
    if (this.#welcomed) this.#raw(message)
  }

  #receive(message: DownMessage): void {
    switch (message.t) {
      case 'welcome':
        return this.#resume(message.ackedSeq)
      case 'ack':
        return this.#ack(message.seq)
      case 'command':
        return void this.#command(message)
      case 'resultAck':
        this.#acknowledged.add(message.commandId)
        return
      case 'answer':
        return this.#answered(message)
      case 'token':
        return
    }
  }

  #ack(seq: number): void {
    if (seq > this.events.length)
      this.options.complain(`Event ${seq} of ${this.options.sessionId} was never made`)
    this.#acked = Math.max(this.#acked, seq)
  }

  #resume(ackedSeq: number): void {
    const { sessionId } = this.options
    if (ackedSeq < this.#acked)
      this.options.complain(
        `${sessionId} has lost acknowledged events: ${ackedSeq} < ${this.#acked}`,
      )
    this.#ack(ackedSeq)
    this.#welcomed = true
    this.#send({ t: 'ready', bootMs: 1, enforces: ['real-path', 'output'] })
    this.#sendEvents(ackedSeq)
    for (const result of this.#results.values()) {
      if (!this.#acknowledged.has(result.commandId)) this.#send(result)
    }
    for (const { question } of this.#asks.values()) this.#send(question)
  }

  #sendEvents(from: number): void {
    if (!this.#welcomed) return
    for (let i = from; i < this.events.length; i += 50) {
      const message: UpMessage = { t: 'events', items: this.events.slice(i, i + 50) }
      this.#send(message)
      if (this.options.random.chance(0.1)) this.#send(message)
    }
  }

  async #command({ id, kind, body }: Down<'command'>): Promise<void> {
    const known = this.#results.get(id)
    if (known) return this.#send(known)
    if (this.#begun.has(id)) return
    if (kind === 'execute') this.#begun.add(id)
    const turn = kind === 'prompt' ? (body as CommandBody<'prompt'>) : null
    if (turn) this.#received(turn)
    if (kind === 'abort') this.#aborted.add(String((body as CommandBody<'abort'>).turnId))
    const data = await this.#carryOut(id, kind, body)
    if (this.#results.has(id)) return
    const result: Up<'result'> = { t: 'result', commandId: id, ok: true, data }
    this.#results.set(id, result)
    this.#send(result)
    if (turn) await this.#work(turn)
  }

  async #carryOut(
    id: string,
    kind: Down<'command'>['kind'],
    body: Record<string, unknown>,
  ): Promise<Record<string, unknown>> {
    if (kind === 'collect') return { files: [await this.#upload(id)] }
    if (kind === 'execute') return this.#execute(body as CommandBody<'execute'>)
    return kind === 'prompt' ? { sent: true } : emptyDiff
  }

  async #execute({ attemptId, operation }: CommandBody<'execute'>): Promise<ExecutionReport> {
    const { random } = this.options
    await sleep(random.below(40))
    const execution: Execution = {
      attemptId,
      label: operation.targetPath ?? '',
      status: random.chance(0.8) ? 'succeeded' : random.chance(0.7) ? 'failed' : 'unknown',
      nonce: random.id(20),
    }
    this.executions.push(execution)
    return reportOf(execution)
  }

  #received({ turnId, messageId }: CommandBody<'prompt'>): void {
    this.prompts.set(turnId, (this.prompts.get(turnId) ?? new Set()).add(messageId))
  }

  async #upload(commandId: string): Promise<CollectedFile> {
    const bytes = Buffer.from(`evidence of ${commandId}`)
    const { sessionId, client } = this.options
    await client.send('PUT', `/sandbox/${sessionId}/artifacts`, bytes)
    const sha256 = createHash('sha256').update(bytes).digest('hex')
    return { path: 'evidence.txt', size: bytes.length, sha256, contentType: 'text/plain' }
  }

  /** One turn: a text, a tool that asks the gate, the end. */
  async #work({ turnId }: CommandBody<'prompt'>): Promise<void> {
    const part = { turnId, sessionId: 'oc', messageId: 'm', partId: 'p' }
    this.#emit('message.text', { ...part, text: 'working', reasoning: false })
    await this.#ask()
    this.notice(1)
    const state = this.#aborted.has(turnId) ? 'aborted' : 'completed'
    const reason = state === 'aborted' ? 'aborted' : null
    this.#emit('turn.ended', { turnId, state, reason, text: `done ${turnId}`, diff: null })
  }

  #ask(): Promise<void> {
    // The second asks a person.
    const input = { command: this.options.random.chance(0.8) ? 'echo' : 'rm -rf build' }
    const question: Up<'ask'> = {
      t: 'ask',
      askId: `ask_${this.options.random.id(20)}` as Up<'ask'>['askId'],
      tool: 'bash',
      callId: 'c',
      opencodeSessionId: 'oc',
      input,
      inputHash: hashText(canonicalJson(input)),
    }
    return new Promise((resolve) => {
      this.#asks.set(question.askId, { question, answered: resolve })
      this.#send(question)
    })
  }

  #answered({ askId, decision }: Down<'answer'>): void {
    const before = this.decisions.get(askId)
    if (before !== undefined && before !== decision)
      this.options.complain(`${askId} was ${before}, then ${decision}`)
    this.decisions.set(askId, decision)
    this.#asks.get(askId)?.answered()
    this.#asks.delete(askId)
  }
}

const emptyDiff = { patch: '', files: [], truncated: false }
