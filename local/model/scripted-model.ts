// The scripted model: an OpenAI-compatible server that answers as the script in the prompt says
// (docs/scripted-model.md). It keeps no conversation: which model step it plays is the number of answers after the last
// message with a script, so the same request gets the same answer. It also plays failures: stalls, HTTP errors, broken
// JSON, cut connections. The stack starts it when no model key is set; the tests start it for everything that a model
// must do.

import { createHash, timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { sleep } from '../processes/processes.ts'
import {
  type ChatMessage,
  type ChatRequest,
  completionChunks,
  completionOf,
  type Reply,
} from './chat-completions.ts'

export const scriptStart = '<gantry-script>'
export const scriptEnd = '</gantry-script>'

export interface ScriptCall {
  name: string
  args: Record<string, unknown>
  /** Default: made from the step, so that the same request gets the same answer. */
  id?: string
}

/** One answer of the model. Several calls in one step run in parallel. */
export interface ScriptStep {
  text?: string
  reasoning?: string
  calls?: ScriptCall[]
  /** Waits before the answer begins. */
  stallMs?: number
  /** Waits between pieces of the answer. */
  pieceMs?: number
  /** Answers with this status; `times`: only that often, then the step as it is. `retryAfter`: seconds, as a header. */
  httpError?: { status: number; times?: number; retryAfter?: number }
  /** Sends arguments that do not parse. */
  brokenJson?: boolean
  /** Cuts the connection in the middle of the answer; a number: only that often. */
  dropConnection?: boolean | number
}

/** The part of a prompt that tells the scripted model what to answer, step by step. */
export function script(steps: ScriptStep[]): string {
  // A step may carry the script of a sub-agent, whose marks must not be taken for these.
  const json = JSON.stringify(steps).replaceAll('<', String.raw`\u003c`)
  return `${scriptStart}\n${json}\n${scriptEnd}`
}

interface ScriptedModelOptions {
  apiKey: string
  port?: number
}
interface LoggedRequest {
  at: number
  body: ChatRequest
}
export interface ScriptedModel {
  /** With `/v1`, as OpenAI-compatible clients want it. */
  url: string
  apiKey: string
  /** What was asked, oldest first; bounded. */
  log(): LoggedRequest[]
  close: () => Promise<void>
}

const maxLogged = 200
const maxBodyBytes = 8 * 1024 * 1024

export async function startScriptedModel(options: ScriptedModelOptions): Promise<ScriptedModel> {
  const log: LoggedRequest[] = []
  const failures = new Map<string, number>()
  const server = createServer((request, response) => {
    void serve(request, response).catch(() => response.destroy())
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(options.port ?? 0, '127.0.0.1', resolve)
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    apiKey: options.apiKey,
    log: () => log,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (!isAuthorised(request.headers.authorization, options.apiKey)) {
      return json(response, 401, {
        error: { message: 'Incorrect API key', type: 'invalid_request_error' },
      })
    }
    const path = (request.url ?? '').replace(/^\/v1/, '').replace(/\?.*/, '')
    if (request.method === 'GET' && path === '/log') return json(response, 200, log)
    if (request.method === 'GET' && path === '/models') {
      return json(response, 200, { object: 'list', data: [{ id: 'scripted', object: 'model' }] })
    }
    if (request.method !== 'POST' || path !== '/chat/completions') {
      return json(response, 404, {
        error: { message: `No such path: ${request.method} ${request.url}` },
      })
    }
    const body = await readBody(request)
    if (body === undefined)
      return json(response, 400, { error: { message: 'The body is not a chat request' } })
    log.push({ at: Date.now(), body })
    if (log.length > maxLogged) log.shift()
    await play(body, response)
  }

  async function play(body: ChatRequest, response: ServerResponse): Promise<void> {
    const { step, key } = decideStep(body)
    if (step.stallMs !== undefined) await sleep(step.stallMs)
    if (step.httpError !== undefined && failsAgain(key, step.httpError.times)) {
      const { status, retryAfter } = step.httpError
      if (retryAfter !== undefined) response.setHeader('retry-after', retryAfter)
      return json(response, status, {
        error: {
          message: 'Scripted failure',
          // OpenCode believes the type more than the status.
          type: status < 500 && status !== 429 ? 'invalid_request_error' : 'server_error',
        },
      })
    }
    const drops = step.dropConnection === true ? Number.POSITIVE_INFINITY : step.dropConnection
    const isDropped = drops !== undefined && drops !== false && failsAgain(`${key} drop`, drops)
    const reply = replyOf(step, key, body)
    if (body.stream !== true) return json(response, 200, completionOf(reply))
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
    const chunks = completionChunks(reply)
    for (const [index, chunk] of chunks.entries()) {
      if (isDropped && index === Math.floor(chunks.length / 2)) {
        await sleep(50) // what was written is to arrive first
        return void response.destroy()
      }
      if (response.destroyed) return
      response.write(`data: ${JSON.stringify(chunk)}\n\n`)
      if (step.pieceMs !== undefined) await sleep(step.pieceMs)
    }
    response.end('data: [DONE]\n\n')
  }

  function failsAgain(key: string, times = Number.POSITIVE_INFINITY): boolean {
    const seen = failures.get(key) ?? 0
    if (failures.size > 1000) failures.clear()
    failures.set(key, seen + 1)
    return seen < times
  }
}

const greeting = [
  'Hello! I am the scripted model that Gantry runs when no model key is set, so I only follow scripts.',
  'Set ANTHROPIC_API_KEY, or GANTRY_MODEL_BASE_URL with GANTRY_MODEL_API_KEY and GANTRY_MODEL, to talk to a real one.',
].join(' ')

/** Which step the conversation is at, and a name for it that the same request gives again. */
function decideStep(body: ChatRequest): { step: ScriptStep; key: string } {
  // Titles and summaries are asked for without tools, and repeat the prompt with its script.
  if (body.tools === undefined || body.tools.length === 0)
    return { step: { text: 'Scripted session' }, key: 'title' }
  const at = body.messages.findLastIndex((message) => message.role === 'user' && hasScript(message))
  const message = body.messages[at]
  if (message === undefined) return { step: { text: greeting }, key: 'greeting' }
  const text = textOf(message)
  const index = body.messages.slice(at + 1).filter(({ role }) => role === 'assistant').length
  const key = createHash('sha256').update(`${at} ${index} ${text}`).digest('hex').slice(0, 12)
  const steps = parseScript(text)
  if (steps === undefined)
    return { step: { text: 'I cannot read the script: it is not a JSON list of steps.' }, key }
  return { step: steps[index] ?? { text: 'Done.' }, key }
}

const hasScript = (message: ChatMessage) => textOf(message).includes(scriptStart)

function parseScript(text: string): ScriptStep[] | undefined {
  const from = text.lastIndexOf(scriptStart) + scriptStart.length
  const to = text.indexOf(scriptEnd, from)
  try {
    const steps: unknown = JSON.parse(text.slice(from, to === -1 ? undefined : to))
    return Array.isArray(steps) ? (steps as ScriptStep[]) : undefined
  } catch {
    return undefined
  }
}

function textOf({ content }: ChatMessage): string {
  if (typeof content === 'string') return content
  return (content ?? []).map((part) => part.text ?? '').join('')
}

function replyOf(step: ScriptStep, key: string, body: ChatRequest): Reply {
  return {
    id: `chatcmpl-${key}`,
    model: body.model,
    reasoning: step.reasoning ?? '',
    text: step.text ?? '',
    calls: (step.calls ?? []).map((call, index) => ({
      id: call.id ?? `call_${key}_${index}`,
      name: call.name,
      arguments: step.brokenJson === true ? '{"broken": ' : JSON.stringify(call.args),
    })),
    promptTokens: Math.ceil(JSON.stringify(body.messages).length / 4),
  }
}

function isAuthorised(header: string | undefined, key: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(header ?? ''), digest(`Bearer ${key}`))
}

async function readBody(request: IncomingMessage): Promise<ChatRequest | undefined> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > maxBodyBytes) return undefined
    chunks.push(chunk)
  }
  try {
    const body = JSON.parse(Buffer.concat(chunks).toString('utf8')) as ChatRequest
    return Array.isArray(body.messages) ? body : undefined
  } catch {
    return undefined
  }
}

function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify(body))
}
