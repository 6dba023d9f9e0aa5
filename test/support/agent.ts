import { createTokens } from '../../src/adapters/tokens.ts'
import type { AgentEventKind } from '../../src/contract/agent-events.ts'
import { canonicalJson } from '../../src/contract/canonical.ts'
import { hashText } from '../../src/core/hash.ts'
import { type AgentEvent, DownMessage, type UpMessage } from '../../src/contract/link.ts'
import { parseConfig } from '../../src/config.ts'

export interface MintOptions {
  sessionId: string
  organisationId: string
  generation?: number
  /** When it was made; tokens live for an hour. */
  at?: number
}

/** A sandbox's token, made with the keys that the control plane was given. */
export async function mintToken(
  env: Record<string, string>,
  options: MintOptions,
): Promise<string> {
  const { sessionId, organisationId, generation = 1, at = Date.now() } = options
  const { token } = await createTokens(parseConfig(env).tokenKeys, () => at).mint({
    sessionId,
    organisationId,
    generation,
  })
  return token
}

type Down<T extends DownMessage['t']> = Extract<DownMessage, { t: T }>

/** A WebSocket, as far as an agent needs one. */
export interface AgentSocket {
  readonly readyState: number
  send(text: string): void
  close(code?: number): void
  addEventListener(type: 'open', listen: () => void): void
  addEventListener(type: 'message', listen: (event: { data: unknown }) => void): void
  addEventListener(type: 'close', listen: (event: { code: number; reason: string }) => void): void
}

/** The agent's side of the link and nothing else: a sandbox without OpenCode. */
export class TestAgent {
  readonly messages: DownMessage[] = []
  /** Given when the socket is gone, whoever ended it. */
  readonly closed: Promise<{ code: number; reason: string }>
  readonly #socket: AgentSocket
  #wake: () => void = () => {}
  #isClosed = false

  static dial(url: string, sessionId: string, token: string): TestAgent {
    const init = { headers: { authorization: `Bearer ${token}` } }
    const address = `${url.replace(/^http/, 'ws')}/sandbox/${sessionId}/link`
    // Node's WebSocket takes headers.
    return new TestAgent(new WebSocket(address, init))
  }

  constructor(socket: AgentSocket) {
    this.#socket = socket
    this.#socket.addEventListener('message', ({ data }) => {
      this.messages.push(DownMessage.parse(JSON.parse(String(data))))
      this.#wake()
    })
    this.closed = new Promise((resolve) =>
      this.#socket.addEventListener('close', ({ code, reason }) => {
        this.#isClosed = true
        this.#wake()
        resolve({ code, reason })
      }),
    )
  }

  /** False if the control plane did not let it in. */
  opened(): Promise<boolean> {
    if (this.#socket.readyState === WebSocket.OPEN) return Promise.resolve(true)
    return new Promise((resolve) => {
      this.#socket.addEventListener('open', () => resolve(true))
      this.#socket.addEventListener('close', () => resolve(false))
    })
  }

  send(message: UpMessage): void {
    this.sendText(JSON.stringify(message))
  }

  sendText(text: string): void {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(text)
  }

  close(): void {
    this.#socket.close(1000)
  }

  /** The first message of this kind that fits, also among those that have come already. */
  async next<T extends DownMessage['t']>(
    t: T,
    fits: (message: Down<T>) => boolean = () => true,
  ): Promise<Down<T>> {
    for (let seen = 0; ;) {
      for (; seen < this.messages.length; seen++) {
        const message = this.messages[seen] as DownMessage
        if (message.t === t && fits(message as Down<T>)) return message as Down<T>
      }
      if (this.#isClosed) throw new Error(`The link closed before a "${t}" came`)
      await new Promise<void>((resolve) => (this.#wake = resolve))
    }
  }

  async greet({ ready = true, protocols = [1] } = {}): Promise<Down<'welcome'>> {
    await this.opened()
    this.send({ t: 'hello', protocols, agent: 'test', boot: 'boot', ready })
    return this.next('welcome')
  }
}

export function notice(seq: number, message = `event ${seq}`): AgentEvent {
  return agentEvent(seq, 'agent.notice', { message })
}

export function agentEvent(
  seq: number,
  kind: AgentEventKind,
  data: Record<string, unknown>,
): AgentEvent {
  return { seq, at: seq, kind, data }
}

/** The approval that a parked question becomes: it carries the session's characters and the question's. */
export const approvalOf = (sessionId: string, askId: string) =>
  `apr_${sessionId.slice(4)}${askId.slice(-8)}`

/** Inputs that are harmless, so that only a rule about the tool makes them ask. */
const harmless: Record<string, unknown> = {
  bash: { command: 'ls' },
  read: { filePath: 'a.txt' },
  webfetch: { url: 'https://example.test/' },
}

export function question(
  askId: string,
  tool: string,
  input: unknown = harmless[tool] ?? {},
): Extract<UpMessage, { t: 'ask' }> {
  return {
    t: 'ask',
    askId: askId as never,
    tool,
    callId: `call_${askId}`,
    opencodeSessionId: 'oc',
    input,
    inputHash: hashText(canonicalJson(input ?? null)),
  }
}
