// The relay: the loopback server that is OpenCode's only way out. It serves three kinds of request: questions of the
// gate, calls of gateway tools, and requests to models. Every request must carry the local token. The relay keeps the
// sandbox's own token to itself, sends each call upstream once however often it is asked, and refuses a tool that the
// gate has not allowed. The agent starts it before OpenCode; OpenCode, its tool wrappers and the gate's plugin call it.

import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { AddressInfo, Server as Listener } from 'node:net'
import { AskId } from '../../src/contract/ids.ts'
import { maxArgsBytes, ToolCallback } from '../../src/contract/tool.ts'
import type { Answer, Gate, Question } from './gate.ts'
import { log, messageOf } from '../log.ts'
import { passOn } from './pass-on.ts'
import { callUpstream, type Outcome, type UpstreamOptions } from './upstream.ts'

// An import of it would load fetch and WebSocket with it, and OpenCode would start that much later.
const http = process.getBuiltinModule('node:http')

export interface RelayOptions {
  gatewayUrl: string
  sessionId: string
  /** The sandbox's JWT: for the control plane only, never for what runs in the sandbox. */
  token: () => string
  localToken: string
  gate: Pick<Gate, 'ask' | 'confirm' | 'admits'>
  /** After this long a waiting wrapper or hook is told to ask again. A fetch inside OpenCode may not idle for long. */
  pollMs?: number
  upstream?: Partial<UpstreamOptions>
}

/** A settled answer is kept for wrappers whose connection broke. */
const keepAnswersMs = 10 * 60_000
const maxGateBytes = 16 * 1024 * 1024

export class Relay {
  readonly #options: RelayOptions
  readonly #server: Server
  #inside: Listener | undefined
  readonly #calls = new Map<string, Promise<Outcome>>()
  /** How many bytes of models' answers have passed: while the number grows, a turn is not quiet. */
  modelBytes = 0

  constructor(options: RelayOptions) {
    this.#options = options
    this.#server = http.createServer((request, response) => {
      this.#serve(request, response).catch((error: unknown) => {
        log('relay.failed', { reason: messageOf(error) })
        if (!response.headersSent)
          reply(response, 500, { error: { code: 'internal', message: messageOf(error) } })
        else response.destroy()
      })
    })
    this.#server.requestTimeout = 0
  }

  async listen(): Promise<string> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject)
      this.#server.listen(0, '127.0.0.1', resolve)
    })
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** What comes to a listener that somebody else has opened, in an enclosure's own network. One at a time. */
  serve(listener: Listener): void {
    this.#inside?.close()
    this.#inside = listener
    listener.on('connection', (socket) => this.#server.emit('connection', socket))
  }

  close(): void {
    this.#inside?.close()
    this.#server.close()
    this.#server.closeAllConnections()
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (!this.#isLocal(request))
      return refuse(response, 401, 'unauthenticated', 'The local token is missing or wrong')
    const { pathname, search } = new URL(request.url ?? '/', 'http://relay')
    if (pathname.startsWith('/llm/')) return this.#model(request, response, pathname + search)
    if (request.method !== 'POST') return refuse(response, 405, 'method_not_allowed', 'Only POST')
    if (pathname === '/gate') return this.#gate(request, response)
    const tool = toolOf(pathname, this.#options.sessionId)
    if (tool !== undefined) return this.#tool(request, response, tool)
    return refuse(response, 404, 'not_found', 'No such path')
  }

  // Model SDKs send the key in a header of their own.
  #isLocal(request: IncomingMessage): boolean {
    const bearer = request.headers.authorization?.replace(/^Bearer /, '')
    const key = request.headers['x-api-key']
    return [bearer, key].some(
      (value) => typeof value === 'string' && isEqual(value, this.#options.localToken),
    )
  }

  async #tool(request: IncomingMessage, response: ServerResponse, tool: string): Promise<void> {
    const text = await readBody(request, maxArgsBytes + 4096)
    if (text === undefined) return refuse(response, 413, 'too_large', 'The arguments are too large')
    const call = ToolCallback.safeParse(parseJson(text))
    if (!call.success)
      return refuse(
        response,
        400,
        'invalid_request',
        call.error.issues[0]?.message ?? 'Invalid body',
      )
    const key = `${tool}\n${call.data.tool_call_id}\n${JSON.stringify(call.data.args)}`
    // A command that bash runs may have got hold of the local token: the gate holds for it, too.
    if (!this.#calls.has(key) && !this.#options.gate.admits(idOf(tool), call.data.tool_call_id))
      return refuse(response, 403, 'forbidden', `The gate has not allowed "${tool}"`)
    const running = this.#calls.get(key) ?? this.#call(key, tool, call.data)
    const outcome = await withinMs(running, this.#options.pollMs ?? 50_000)
    if (outcome === undefined) return reply(response, 202, { pending: true })
    // Only answers are kept: a call that comes again after a failure must reach the control plane.
    if (!outcome.answered && this.#calls.get(key) === running) this.#calls.delete(key)
    return reply(response, 200, outcome.result)
  }

  /** One upstream request per id, however many wrappers wait for it. */
  #call(key: string, tool: string, call: ToolCallback): Promise<Outcome> {
    const { gatewayUrl, sessionId, token, upstream } = this.#options
    const url = `${gatewayUrl}/proliferate/${sessionId}/tools/${encodeURIComponent(tool)}`
    const started = callUpstream({ url, token, body: JSON.stringify(call), ...upstream })
    this.#calls.set(key, started)
    const forget = () => setTimeout(() => this.#calls.delete(key), keepAnswersMs).unref()
    void started.then(forget, forget)
    return started
  }

  async #gate(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const text = await readBody(request, maxGateBytes)
    if (text === undefined)
      return reply(response, 200, {
        decision: 'deny',
        reason: 'The input is too large to be checked',
      })
    const question = parseQuestion(parseJson(text))
    if (!question) return refuse(response, 400, 'invalid_request', 'Not a question')
    const answer: Answer | undefined = question.confirm
      ? this.#options.gate.confirm(question)
      : await this.#options.gate.ask(question, this.#options.pollMs ?? 50_000)
    if (answer === undefined) return reply(response, 202, { pending: true })
    return reply(response, 200, answer)
  }

  /** Streams to the control plane and back; the model's key is added there. */
  async #model(request: IncomingMessage, response: ServerResponse, path: string): Promise<void> {
    // Never the request's own target: put behind a host name, "pany://x/llm/" would make another host of it.
    const url = new URL(`${this.#options.gatewayUrl}${path}`)
    passOn(request, response, {
      url,
      token: this.#options.token(),
      onPiece: (bytes) => (this.modelBytes += bytes),
      refuse: (message) => refuse(response, 503, 'model_unavailable', message),
    })
  }
}

function parseQuestion(value: unknown): (Question & { confirm: boolean }) | undefined {
  if (value === null || typeof value !== 'object') return undefined
  const { askId, tool, callId, sessionID, input, confirm } = value as Record<string, unknown>
  if (!AskId.safeParse(askId).success) return undefined
  if (typeof tool !== 'string' || typeof callId !== 'string' || typeof sessionID !== 'string')
    return undefined
  if (tool === '') return undefined
  // Whole, however long: they are compared with what OpenCode's stream says.
  return { askId: askId as string, tool, callId, sessionID, input, confirm: confirm === true }
}

function toolOf(pathname: string, sessionId: string): string | undefined {
  const [, root, session, tools, tool, rest] = pathname.split('/')
  if (
    root !== 'proliferate' ||
    session !== sessionId ||
    tools !== 'tools' ||
    !tool ||
    rest !== undefined
  )
    return undefined
  return decodeURIComponent(tool)
}

/** OpenCode, and so the gate, knows a tool by the name of its file. */
const idOf = (tool: string) => tool.replaceAll(/[^A-Za-z0-9_-]/g, '_')

// Digests first: the comparison needs equal lengths, and must not tell the length either.
function isEqual(a: string, b: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(a), digest(b))
}

async function readBody(request: IncomingMessage, maxBytes: number): Promise<string | undefined> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes <= maxBytes) chunks.push(chunk)
  }
  return bytes > maxBytes ? undefined : Buffer.concat(chunks).toString('utf8')
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function withinMs<T>(promise: Promise<T>, ms: number): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve(undefined), ms)
    promise.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}

function reply(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify(body))
}

function refuse(response: ServerResponse, status: number, code: string, message: string): void {
  reply(response, status, { error: { code, message } })
}
