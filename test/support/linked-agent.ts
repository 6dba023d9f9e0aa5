import { createHash } from 'node:crypto'
import type { AgentEventKind } from '../../src/contract/agent-events.ts'
import {
  commandKinds,
  type CommandBody,
  type CommandKind,
  type UpMessage,
} from '../../src/contract/link.ts'
import { Enforcement } from '../../src/contract/operation.ts'
import { agentEvent, question, TestAgent } from './agent.ts'
import { report } from './run-world.ts'

/** A sandbox without OpenCode that speaks for itself: it numbers its events and questions, and keeps all that it is told. */
export class LinkedAgent extends TestAgent {
  #seq = 0
  #asks = 0

  /** Hello, and ready to work. */
  async meet({ ready = true } = {}): Promise<void> {
    await this.greet({ ready, protocols: [2, 1] })
    if (ready) this.send({ t: 'ready', bootMs: 1, enforces: [...Enforcement.options] })
  }

  emit(kind: AgentEventKind, data: Record<string, unknown>): void {
    this.send({ t: 'events', items: [agentEvent(++this.#seq, kind, data)] })
  }

  endTurn(turnId: string, change: Record<string, unknown> = {}): void {
    const end = { turnId, state: 'completed', reason: null, text: null, diff: null }
    this.emit('turn.ended', { ...end, ...change })
  }

  usedTokens(turnId: string, tokens: Record<string, number>): void {
    const none = { input: 0, output: 0, reasoning: 0, cacheRead: 0, cacheWrite: 0 }
    const part = { sessionId: 's', messageId: 'm', partId: 'p', reason: 'stop', cost: 0 }
    this.emit('step.finished', { ...part, turnId, tokens: { ...none, ...tokens } })
  }

  /** Asks the gate, and gives the question's id. */
  ask(tool: string, input?: unknown, change: Partial<Extract<UpMessage, { t: 'ask' }>> = {}) {
    const askId = `ask_${String(++this.#asks).padStart(20, '0')}`
    const asked = question(askId, tool, input)
    const inputHash = createHash('sha256').update(JSON.stringify(asked.input)).digest('hex')
    this.send({ ...asked, inputHash, ...change })
    return askId
  }

  /** What it was told about a question; null while nothing. */
  answerTo(askId: string): { decision: 'allow' | 'deny'; reason: string } | null {
    const answer = this.messages.findLast((sent) => sent.t === 'answer' && sent.askId === askId)
    return answer?.t === 'answer' ? answer : null
  }

  /** The bodies of all commands of this kind, oldest first, each once. */
  commands<K extends CommandKind>(kind: K): { id: string; body: CommandBody<K> }[] {
    const found = new Map<string, { id: string; body: CommandBody<K> }>()
    for (const message of this.messages)
      if (message.t === 'command' && message.kind === kind)
        found.set(message.id, { id: message.id, body: message.body as CommandBody<K> })
    return [...found.values()]
  }

  async command<K extends CommandKind>(kind: K): Promise<{ id: string; body: CommandBody<K> }> {
    const { id, body } = await this.next(
      'command',
      (message) => message.kind === kind && !this.#answered.has(message.id),
    )
    // As the agent reads it: what it would refuse does not run.
    return { id, body: commandKinds[kind].body.parse(body) as CommandBody<K> }
  }

  readonly #answered = new Set<string>()

  result(commandId: string, data: Record<string, unknown> = {}): void {
    this.#answered.add(commandId)
    this.send({ t: 'result', commandId, ok: true, data })
  }

  fail(commandId: string, error = 'no'): void {
    this.#answered.add(commandId)
    this.send({ t: 'result', commandId, ok: false, error })
  }

  /** Carries out the next attempt. */
  async execute(change: Parameters<typeof report>[0] = {}) {
    const { id, body } = await this.command('execute')
    this.result(id, { ...report(change) })
    return body
  }
}
