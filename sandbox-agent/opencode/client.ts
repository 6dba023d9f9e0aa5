import type { Agent, IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'

// An import of it would load fetch and WebSocket with it, and OpenCode would start that much later.
const http = process.getBuiltinModule('node:http')

export interface ClientRequest {
  method?: string
  headers?: Record<string, string>
  body?: string
  signal: AbortSignal
  /** On a connection of its own. */
  alone?: boolean
}

/**
 * HTTP to OpenCode's server over connections that somebody else makes: its network may not be the agent's. OpenCode and
 * the turns call it. Every request ends by its signal at the latest; an answer is handed on as it comes.
 */
export class Client {
  readonly #kept: Agent
  readonly #alone: Agent

  constructor(connect: () => Socket) {
    const by = (agent: Agent) => Object.assign(agent, { createConnection: connect })
    this.#kept = by(new http.Agent({ keepAlive: true, maxFreeSockets: 2 }))
    this.#alone = by(new http.Agent({ keepAlive: false }))
  }

  /** Only what may be repeated is sent on a connection that was used before: the server may close that meanwhile. */
  async send(path: string, request: ClientRequest): Promise<IncomingMessage> {
    const isRepeatable = (request.method ?? 'GET') === 'GET' && request.alone !== true
    if (!isRepeatable) return this.#send(path, request, this.#alone)
    return this.#send(path, request, this.#kept).catch((error: unknown) => {
      if (request.signal.aborted) throw error
      return this.#send(path, request, this.#alone)
    })
  }

  close(): void {
    this.#kept.destroy()
    this.#alone.destroy()
  }

  #send(path: string, request: ClientRequest, agent: Agent): Promise<IncomingMessage> {
    const { method = 'GET', headers = {}, body, signal } = request
    return new Promise((resolve, reject) => {
      const sent = http.request({ agent, method, path, headers, signal, host: '127.0.0.1' })
      sent.once('response', resolve)
      sent.on('error', reject)
      sent.end(body)
    })
  }
}

export async function opencodeClientText(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of response as AsyncIterable<Buffer>) chunks.push(chunk)
  return Buffer.concat(chunks).toString('utf8')
}
