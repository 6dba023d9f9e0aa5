import { join } from 'node:path'
import { turnPatience } from '../../../src/contract/turn.ts'
import { type Ask, Gate } from '../../../sandbox-agent/gate/gate.ts'
import { Memory } from '../../../sandbox-agent/memory/memory.ts'
import type { OpenCode } from '../../../sandbox-agent/opencode/opencode.ts'
import { Turns } from '../../../sandbox-agent/turn/turns.ts'
import { temporaryFolder } from '../support.ts'

export const prompt = { turnId: 'trn_1', messageId: 'msg_1', text: 'Hello', steer: false }
export const second = { ...prompt, turnId: 'trn_2', messageId: 'msg_2', text: 'Again' }

/** Fast enough for tests; the proportions are those of the real ones. */
export const hasty = {
  ...turnPatience,
  lookEveryMs: 20,
  probeMs: 50,
  abortMs: 150,
  quietMs: 400,
  quietToolMs: 900,
}

type Step = (path: string) => Promise<unknown> | undefined

/** An OpenCode in which each prompt is answered when the test says so, and each request can be held. */
class ScriptedOpenCode {
  readonly requests: string[] = []
  readonly bodies: unknown[] = []
  messages: object[] = []
  /** Sessions that somebody else has begun, with their messages. */
  others: Record<string, object[]> = {}
  busy = false
  /** It stands still: no request is answered. */
  isHung = false
  isDead = false
  ignoresAborts = false
  #lastPrompt = ''
  #hold: Step = () => undefined
  readonly #deaths: ((error: Error) => void)[] = []

  /** The next request whose path ends so waits until the returned function is called. */
  hold(ending: string): { reached: Promise<void>; release: () => void } {
    const reached = Promise.withResolvers<void>()
    const released = Promise.withResolvers<void>()
    this.#hold = (path) => {
      if (!path.endsWith(ending)) return undefined
      this.#hold = () => undefined
      reached.resolve()
      return released.promise
    }
    return { reached: reached.promise, release: released.resolve }
  }

  kill(): void {
    this.isDead = true
    for (const die of this.#deaths) die(new Error('OpenCode has ended'))
  }

  answer(text = 'Done'): void {
    const part = { id: `${this.#lastPrompt}_p`, messageID: `${this.#lastPrompt}_a`, type: 'text' }
    this.#reply(this.#lastPrompt, { time: { completed: 1 } }, [{ ...part, text, time: {} }])
  }

  readonly request = async (
    method: string,
    path: string,
    body?: unknown,
    timeoutMs = 30_000,
  ): Promise<unknown> => {
    this.requests.push(`${method} ${path}`)
    await this.#hold(path)
    if (this.isDead) throw new Error('OpenCode has ended')
    if (this.isHung) await this.#noAnswer(timeoutMs)
    if (method === 'GET' && path === '/session')
      return [{ id: 'ses_1' }, ...Object.keys(this.others).map((id) => ({ id }))]
    return this.#respond(path, body)
  }

  #noAnswer(timeoutMs: number): Promise<never> {
    return new Promise((_, reject) => {
      this.#deaths.push(reject)
      setTimeout(() => reject(new Error('No answer in time')), timeoutMs).unref()
    })
  }

  #respond(path: string, body: unknown): unknown {
    if (path === '/session' || path === '/session/ses_1') return { id: 'ses_1' }
    if (path === '/session/status') return this.busy ? { ses_1: { type: 'busy' } } : {}
    if (path.endsWith('/children')) return []
    const [, other = ''] = /^\/session\/(\w+)\/message$/.exec(path) ?? []
    if (path.endsWith('/message')) return this.others[other] ?? this.messages
    if (path === '/session/ses_1/abort') this.#abort()
    if (path.endsWith('/prompt_async')) this.#take(body as { messageID: string })
    return null
  }

  #abort(): void {
    if (!this.busy || this.ignoresAborts) return
    const error = { name: 'MessageAbortedError', data: { message: 'Aborted' } }
    this.#reply(this.#lastPrompt, { error }, [])
  }

  #reply(parentID: string, extra: object, parts: object[]): void {
    const info = { id: `${parentID}_a`, sessionID: 'ses_1', role: 'assistant', parentID }
    this.messages.push({ info: { ...info, ...extra }, parts })
    this.busy = false
  }

  #take(body: { messageID: string }): void {
    this.#lastPrompt = body.messageID
    this.bodies.push(body)
    this.messages.push({
      info: { id: body.messageID, sessionID: 'ses_1', role: 'user' },
      parts: [],
    })
    this.busy = true
  }
}

/** Turns over scripted OpenCodes: a killed one is followed by the next. */
export function turnWorld(options: { arrived?: boolean; patience?: typeof hasty } = {}) {
  const emitted: { kind: string; data: Record<string, unknown> }[] = []
  const asked: Ask[] = []
  const kills: string[] = []
  const memory = new Memory(join(temporaryFolder(), 'memory.json'))
  const gate = new Gate((ask) => void asked.push(ask))
  const arrival = Promise.withResolvers<void>()
  if (options.arrived !== false) arrival.resolve()
  let forget = () => {}
  let beforePrompt = Promise.resolve()
  const world = {
    opencode: new ScriptedOpenCode(),
    modelBytes: 0,
    /** A byte more at each look. */
    streams: false,
    emitted,
    asked,
    kills,
    memory,
    gate,
    arrive: arrival.resolve,
    forget: () => forget(),
    holdBeforePrompt: () => {
      const held = Promise.withResolvers<void>()
      beforePrompt = held.promise
      return { reached: Promise.resolve(), release: held.resolve }
    },
    /** As the supervisor does it: the next one is there when the turns hear of the death. */
    die: () => {
      world.opencode.kill()
      const next = new ScriptedOpenCode()
      next.messages = world.opencode.messages
      world.opencode = next
      turns.opencodeDied()
    },
    ended: () => emitted.filter(({ kind }) => kind === 'turn.ended').map(({ data }) => data),
    turns: undefined as unknown as Turns,
  }
  const turns = new Turns({
    emit: (kind, data) => void emitted.push({ kind, data }),
    gate,
    memory,
    opencode: () => arrival.promise.then(() => world.opencode as unknown as OpenCode),
    beforePrompt: () => beforePrompt,
    diff: async () => null,
    killOpenCode: async () => {
      kills.push('killed')
      world.die()
    },
    modelBytes: () => (world.modelBytes += world.streams ? 1 : 0),
    patience: options.patience ?? hasty,
    afterTurn: (work) => void (forget = work),
    title: 'Test',
  })
  world.turns = turns
  return world
}
