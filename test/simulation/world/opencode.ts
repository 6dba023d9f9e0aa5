import type { OpenCodeEvent } from '../../../sandbox-agent/opencode/opencode.ts'
import type { Message, Part } from '../../../sandbox-agent/opencode/transcript.ts'
import type { Clock } from '../platform/clock.ts'
import type { Network } from '../platform/network.ts'
import { Process } from '../platform/process.ts'

export const simulatedSession = 'ses_opencode'
const rootSession = simulatedSession
/** Two of these use up a session's slice of the shared budget. */
const stepTokens = 60_000

/** What OpenCode has stored; it outlives its process. */
export interface Stored {
  hasSession: boolean
  messages: Message[]
  parts: number
}

/** What happens outside of OpenCode when its model uses a tool. */
export interface ToolWorld {
  /** Null: it was refused, and why. */
  use(tool: string, part: Part): Promise<{ output: string } | { error: string }>
  onEvent(event: OpenCodeEvent): void
  /** A prompt has come while another one is worked on. */
  onOverlap(running: string, coming: string): void
}

interface Work {
  prompts: string[]
  aborted: boolean
}

/**
 * A scripted OpenCode: each word of a prompt is something that its model does, one after the other. `say` is a text, `nap`
 * takes a while, everything else is a tool. It answers the few requests that the agent makes.
 */
export class SimulatedOpenCode {
  readonly process: Process
  readonly #clock: Clock
  readonly #network: Network
  readonly #stored: Stored
  readonly #world: ToolWorld
  readonly #stream = {}
  #work: Work | null = null

  constructor(name: string, clock: Clock, network: Network, stored: Stored, world: ToolWorld) {
    this.process = new Process(name)
    this.#clock = clock
    this.#network = network
    this.#stored = stored
    this.#world = world
  }

  /** As the real one: it throws when its time is over, and when OpenCode is gone. */
  readonly request = (
    method: string,
    path: string,
    body?: unknown,
    timeoutMs = 30_000,
  ): Promise<unknown> => {
    const asker = Process.current ?? null
    return new Promise((resolve, reject) => {
      const late = this.#clock.after(asker, timeoutMs, () => reject(new Error('No answer in time')))
      const end = (settle: () => void) => {
        this.#clock.cancel(late)
        settle()
      }
      if (!this.process.isAlive) return end(() => reject(new Error('OpenCode has ended')))
      this.#network
        .call(
          `opencode ${method} ${path
            .split('/')
            .at(-1)
            ?.replace(/^(msg|ses)_.*/, '$1')}`,
          () => this.process,
          () => this.#answer(method, path, body),
        )
        .then(
          (value) => end(() => resolve(value)),
          (error: unknown) => end(() => reject(error)),
        )
    })
  }

  #answer(method: string, path: string, body: unknown): unknown {
    if (!this.process.isAlive) throw new Error('OpenCode has ended')
    if (path === '/session/status') return this.#work ? { [rootSession]: { type: 'busy' } } : {}
    if (path === '/session') return this.#openSession()
    if (path.endsWith('/children')) return []
    if (path.endsWith('/abort')) return this.#abort()
    if (path.endsWith('/prompt_async')) return this.#prompt(body as Prompt)
    if (path.endsWith('/message')) return structuredClone(this.#stored.messages)
    const message = /\/message\/(.+)$/.exec(path)?.[1]
    if (message === undefined) return this.#stored.hasSession ? { id: rootSession } : null
    return this.#stored.messages.find(({ info }) => info.id === message) ?? null
  }

  #openSession(): { id: string } {
    this.#stored.hasSession = true
    return { id: rootSession }
  }

  #abort(): null {
    if (this.#work) this.#work.aborted = true
    return null
  }

  #prompt({ messageID, parts }: Prompt): undefined {
    const text = parts.at(-1)?.text ?? ''
    const info = { id: messageID, sessionID: rootSession, role: 'user' }
    const part = { id: `${messageID}_t`, sessionID: rootSession, messageID, type: 'text', text }
    this.#stored.messages.push({ info, parts: [part] })
    if (this.#work) {
      this.#world.onOverlap(this.#work.prompts[0] as string, messageID)
      this.#work.prompts.push(messageID)
      return
    }
    const work: Work = { prompts: [messageID], aborted: false }
    this.#work = work
    this.process.run(() => void this.#doAll(work))
  }

  async #doAll(work: Work): Promise<void> {
    for (let next = 0; next < work.prompts.length && !work.aborted; next += 1)
      await this.#do(work, work.prompts[next] as string)
    if (work.aborted) this.#reply(work.prompts.at(-1) as string, 'aborted')
    this.#work = null
    this.#tell('session.idle', { sessionID: rootSession })
  }

  async #do(work: Work, prompt: string): Promise<void> {
    const answer = this.#reply(prompt, 'open')
    const text = this.#stored.messages.find(({ info }) => info.id === prompt)?.parts[0]?.text ?? ''
    for (const word of text.split(' ')) {
      await this.#pause(word === 'nap' ? 40_000 : 200)
      if (work.aborted) return
      if (word === 'say') this.#say(answer, prompt)
      else if (word !== 'nap') await this.#useTool(answer, word)
      if (work.aborted) return
      this.#add(answer, { type: 'step-finish', reason: 'stop', tokens: { input: stepTokens } })
    }
    answer.info.time = { ...answer.info.time, completed: this.#clock.now }
    this.#tell('message.updated', { info: { ...answer.info } })
  }

  #say(answer: Message, prompt: string): void {
    this.#add(answer, {
      type: 'text',
      text: `said for ${prompt}`,
      time: { start: this.#clock.now, end: this.#clock.now },
    })
  }

  async #useTool(answer: Message, tool: string): Promise<void> {
    const callID = `call_${this.#stored.parts}`
    const input = tool === 'bash' ? { command: 'ls' } : {}
    const part = this.#add(answer, {
      type: 'tool',
      tool,
      callID,
      state: { status: 'running', input, time: { start: this.#clock.now } },
    })
    const used = await this.#world.use(tool, part)
    if (!this.process.isAlive) return
    const time = { start: part.state?.time?.start ?? 0, end: this.#clock.now }
    part.state =
      'output' in used
        ? { status: 'completed', input, output: used.output, title: tool, time }
        : { status: 'error', input, error: used.error, time }
    this.#tellPart(part)
  }

  #reply(parentID: string, how: 'open' | 'aborted'): Message {
    const id = `${parentID}_a${this.#stored.messages.length}`
    const error = { name: 'MessageAbortedError', data: { message: 'Aborted' } }
    const message: Message = {
      info: {
        id,
        sessionID: rootSession,
        role: 'assistant',
        parentID,
        time: { created: this.#clock.now },
        ...(how === 'aborted' && { error }),
      },
      parts: [],
    }
    this.#stored.messages.push(message)
    this.#tell('message.updated', { info: { ...message.info } })
    return message
  }

  #add(message: Message, content: Omit<Part, 'id' | 'sessionID' | 'messageID'>): Part {
    const id = `prt_${(this.#stored.parts += 1)}`
    const part: Part = { id, sessionID: rootSession, messageID: message.info.id, ...content }
    message.parts.push(part)
    this.#tellPart(part)
    return part
  }

  #tellPart(part: Part): void {
    this.#tell('message.part.updated', { part: structuredClone(part) })
  }

  /** The stream may miss something, and the agent must find out by itself. */
  #tell(type: string, properties: Record<string, unknown>): void {
    if (!this.process.isAlive) return
    this.#network.send({
      what: `opencode event ${type}`,
      channel: this.#stream,
      arrive: () => this.#world.onEvent({ type, properties }),
      lose: () => undefined,
    })
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) =>
      this.#clock.after(this.process, ms, () => this.process.run(resolve)),
    )
  }
}

interface Prompt {
  messageID: string
  parts: { text?: string }[]
}
