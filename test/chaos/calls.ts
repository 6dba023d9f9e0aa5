import { setTimeout as sleep } from 'node:timers/promises'
import type { Answer, Client, Complain } from './client.ts'
import type { Random } from './random.ts'
import { type ChaosTool, chaosToolKinds } from './tools.ts'

/** One logical call, however often it was asked. */
export interface Call {
  sessionId: string
  tool: ChaosTool | 'verify'
  id: string
  /** The bytes of the first answer; null if there was none but a failure. */
  body: string | null
}

const toolNames = [
  ...(Object.keys(chaosToolKinds) as ChaosTool[]),
  'count_once',
  'count_repeatable',
  'verify',
] as const

/** Asks like a relay, sometimes twice at once, and again later: every answer to one id must have the same bytes. */
export class Caller {
  readonly calls: Call[] = []
  readonly #sessionId: string
  readonly #client: Client
  readonly #random: Random
  readonly #complain: Complain

  constructor(options: { sessionId: string; client: Client; random: Random; complain: Complain }) {
    this.#sessionId = options.sessionId
    this.#client = options.client
    this.#random = options.random
    this.#complain = options.complain
  }

  async run(going: () => boolean): Promise<void> {
    while (going()) {
      await this.#newCall()
      if (this.#random.chance(0.2)) await this.#askAgain(this.#random.pick(this.calls))
      await sleep(this.#random.below(20))
    }
  }

  async #newCall(): Promise<void> {
    const tool = this.#random.pick(toolNames)
    const call: Call = {
      sessionId: this.#sessionId,
      tool,
      id: `call_${this.#random.id(16)}`,
      body: null,
    }
    this.calls.push(call)
    const delayMs = this.#random.chance(0.3) ? this.#random.below(80) : 0
    const args = argsOf(call, delayMs)
    const times = this.#random.chance(0.3) ? 3 : 1
    const answers = await Promise.all(Array.from({ length: times }, () => this.#ask(call, args)))
    // Nobody knows which of them was answered first: one that ran may fail, and another find the honest end of it.
    for (const answer of answers.toSorted((one, other) => other.status - one.status))
      this.#note(call, answer)
    this.#argsOf.set(call.id, args)
  }

  readonly #argsOf = new Map<string, object>()

  async #askAgain(call: Call): Promise<void> {
    this.#note(call, await this.#ask(call, this.#argsOf.get(call.id) ?? {}))
  }

  /** After the storm: everything once more, from the record. */
  async replayAll(): Promise<void> {
    for (const call of this.calls) if (call.body !== null) await this.#askAgain(call)
  }

  #ask(call: Call, args: object): Promise<Answer> {
    return this.#client.send('POST', `/proliferate/${call.sessionId}/tools/${call.tool}`, {
      tool_call_id: call.id,
      args,
    })
  }

  #note(call: Call, answer: Answer): void {
    const name = `${call.tool} ${call.id} of ${call.sessionId}`
    if (
      answer.status === 500 &&
      call.tool !== 'noop' &&
      call.tool !== 'verify' &&
      call.body === null
    )
      return
    if (answer.status !== 200) return this.#complain(`${name}: ${answer.status} ${answer.text}`)
    if (call.body !== null && call.body !== answer.text) {
      this.#complain(`${name} was answered ${call.body}, then ${answer.text}`)
    }
    call.body ??= answer.text
  }
}

function argsOf(call: Call, delayMs: number): object {
  return call.tool === 'verify' ? {} : { label: call.id, delayMs }
}
