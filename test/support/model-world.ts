import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, beforeEach } from 'vitest'
import type { UpMessage } from '../../src/contract/link.ts'
import { createTestApp, type TestApp, type TestAppOptions } from './app.ts'
import { useLibsql } from './libsql.ts'
import { MemorySandboxes } from './memory-sandboxes.ts'

export const vendorKey = 'sk-real-key-of-the-vendor'
type Answer = (response: ServerResponse, body: string) => void
interface Seen {
  method: string
  url: string
  headers: IncomingMessage['headers']
  body: string
}

/** A session whose agent has a turn running, and the token of its sandbox. */
export interface ModelSession {
  id: string
  token: string
  turnId: string
  say(message: UpMessage): Promise<unknown>
}

/** The app in this process with a vendor of models on loopback, which answers as the test says. */
export class ModelWorld {
  readonly #options: Partial<TestAppOptions>
  readonly #server = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk: Buffer) => (body += chunk.toString()))
    request.on('end', () => {
      const { method = '', url = '', headers } = request
      this.seen.push({ method, url, headers, body })
      this.answer(response, body)
    })
  })
  app!: TestApp
  organisationId!: string
  key!: string
  models!: NonNullable<TestAppOptions['models']>
  seen: Seen[] = []
  answer: Answer = () => {}

  constructor(options: Partial<TestAppOptions> = {}) {
    this.#options = options
  }

  async start(db: TestAppOptions['db']): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
    const baseUrl = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
    this.models = {
      anthropic: { baseUrl, apiKey: vendorKey },
      litellm: { baseUrl: `${baseUrl}/v1`, apiKey: vendorKey },
    }
    const sandboxes = new MemorySandboxes()
    this.app = createTestApp({ db, sandboxes, models: { ...this.models }, ...this.#options })
    await this.newOrganisation()
  }

  /** Nothing of its budget is in anybody's hands. */
  async newOrganisation(): Promise<void> {
    this.organisationId = await this.app.makeOrganisation()
    this.key = (await this.app.makeKey(this.organisationId, 'admin')).secret
  }

  reset(): void {
    Object.assign(this.app.deps.config.models, this.models)
    this.seen = []
    this.answer = answers.json({})
  }

  stop(): void {
    this.#server.closeAllConnections()
    this.#server.close()
  }

  async open(input: Record<string, unknown> = {}): Promise<ModelSession> {
    const { app, key, organisationId } = this
    const id = (await app.call('POST', '/v1/sessions', key, input)).json.id as string
    const say = async (message: UpMessage) =>
      app.sessions.get(id)?.receive(1, JSON.stringify(message))
    await say({ t: 'hello', protocols: [1], agent: 'test', boot: 'b', ready: true })
    const prompted = await app.call('POST', `/v1/sessions/${id}/prompts`, key, { text: 'go' })
    const { token } = await app.deps.tokens.mint({ sessionId: id, organisationId, generation: 1 })
    return { id, token, turnId: prompted.json.id as string, say }
  }

  chat(session: ModelSession, change: Record<string, unknown> = {}, headers = {}) {
    const body = { model: 'scripted', messages: [], max_tokens: 500, ...change }
    return this.app.call('POST', '/llm/litellm/chat/completions', session.token, body, headers)
  }

  messages(session: ModelSession, change: Record<string, unknown> = {}, headers = {}) {
    const body = { model: 'claude-sonnet-4-6', messages: [], max_tokens: 500, ...change }
    return this.app.call('POST', '/llm/anthropic/v1/messages', session.token, body, headers)
  }

  /** For answers that are not read at once. */
  async stream(
    session: ModelSession,
    body: Record<string, unknown> = {},
    signal: AbortSignal | null = null,
  ): Promise<Response> {
    return this.app.app.request('/llm/litellm/chat/completions', {
      signal,
      method: 'POST',
      headers: { authorization: `Bearer ${session.token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'scripted', stream: true, max_tokens: 500, ...body }),
    })
  }

  async used({ id }: ModelSession): Promise<number> {
    await this.app.settle()
    return (await this.app.call('GET', `/v1/sessions/${id}/budget`, this.key)).json.used.tokens
  }

  async events({ id }: ModelSession, kind: string): Promise<Record<string, unknown>[]> {
    await this.app.settle()
    const { json } = await this.app.call('GET', `/v1/sessions/${id}/events?limit=500`, this.key)
    const items = json.items as { kind: string; data: Record<string, unknown> }[]
    return items.filter((event) => event.kind === kind).map(({ data }) => data)
  }
}

const sse = (events: unknown[]) =>
  events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('')

export const answers = {
  json:
    (body: unknown, status = 200): Answer =>
    (response) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body)),
  stream:
    (events: unknown[]): Answer =>
    (response) =>
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end(sse(events)),
  /** Begins with these, and leaves the rest to the test. */
  begun:
    (events: unknown[], then: (response: ServerResponse) => void): Answer =>
    (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(sse(events))
      then(response)
    },
  usage: (input: number, output: number) =>
    answers.json({ usage: { prompt_tokens: input, completion_tokens: output } }),
}

export function useModelWorld(options: Partial<TestAppOptions> = {}): ModelWorld {
  const libsql = useLibsql()
  const world = new ModelWorld(options)
  beforeAll(() => world.start(libsql.db))
  beforeEach(() => world.reset())
  afterAll(() => world.stop())
  return world
}
