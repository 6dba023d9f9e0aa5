import type { IncomingMessage, ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { z } from 'zod'
import { type Box, type BoxProcess, entered, innerPids } from './e2b-double-box.ts'
import { serveFiles } from './e2b-double-files.ts'
import { type EnvdContext, reply, userOf } from './e2b-double-http.ts'

// The daemon in each sandbox, as far as Gantry and the vendor's SDK use it.

const Selector = z.union([z.strictObject({ pid: z.number() }), z.strictObject({ tag: z.string() })])
const StartRequest = z.strictObject({
  process: z.strictObject({
    cmd: z.string(),
    args: z.array(z.string()).default([]),
    envs: z.record(z.string(), z.string()).default({}),
    cwd: z.string().optional(),
  }),
  tag: z.string().optional(),
  stdin: z.boolean().default(true),
})
const Input = z.strictObject({ stdin: z.string() })
const StreamRequest = z.union([
  z.strictObject({ start: z.strictObject({ process: Selector }) }),
  z.strictObject({ data: z.strictObject({ input: Input }) }),
])

/** Throws whatever is not of the protocol. */
export async function serveEnvd(
  box: Box,
  request: IncomingMessage,
  response: ServerResponse,
  context: EnvdContext,
): Promise<void> {
  const path = new URL(request.url ?? '/', 'http://box').pathname
  if (path === '/health' && request.method === 'GET') return void response.writeHead(204).end()
  if (await serveFiles(box, path, request, response, context)) return
  const method = /^\/process\.Process\/(\w+)$/.exec(path)?.[1] ?? context.unknown(path)
  const body = await buffer(request)
  if (method === 'Start') return start(box, body, request, response, context)
  if (method === 'Connect') {
    const { process } = z.strictObject({ process: Selector }).parse(framesOf(body)[0])
    const found = find(box, process)
    return found ? follow(found, response) : endStream(response, 'not_found')
  }
  if (method === 'StreamInput') return streamInput(box, body, response)
  const message = JSON.parse(body.toString()) as unknown
  context.log(JSON.stringify({ method, message }))
  const answer = unary(box, method, message, context)
  if (answer !== null) return reply(response, 200, answer)
  reply(response, 404, { code: 'not_found', message: 'process not found' })
}

function start(
  box: Box,
  body: Buffer,
  request: IncomingMessage,
  response: ServerResponse,
  context: EnvdContext,
): void {
  const message = StartRequest.parse(framesOf(body)[0])
  context.log(JSON.stringify({ method: 'Start', message }))
  const { cmd, args, envs, cwd } = message.process
  const user = userOf(request)
  const home = user === 'root' ? '/root' : '/home/user'
  const started = box.spawn(
    { cmd, args, tag: message.tag ?? null, user },
    { envs, cwd: cwd === undefined || cwd === '' ? home : cwd, stdin: message.stdin },
  )
  const limitMs = Number(request.headers['connect-timeout-ms'] ?? 0)
  const timer = limitMs > 0 ? setTimeout(() => signal(started, 'SIGKILL'), limitMs) : undefined
  started.child.once('close', () => clearTimeout(timer))
  follow(started, response)
}

/** The process goes on when the caller goes away. */
function follow(process: BoxProcess, response: ServerResponse): void {
  const { child, pid } = process
  const isStarted = entered(process).then(() => {
    response.writeHead(200, { 'content-type': 'application/connect+json' })
    response.write(frame({ event: { start: { pid } } }))
  })
  const write = (bytes: Buffer) => void (response.writableEnded || response.write(bytes))
  const send = (event: object) => void isStarted.then(() => write(frame({ event })))
  child.stdout?.on('data', (bytes: Buffer) => send({ data: { stdout: bytes.toString('base64') } }))
  child.stderr?.on('data', (bytes: Buffer) => send({ data: { stderr: bytes.toString('base64') } }))
  child.once('close', (code, killed) => {
    const status = killed === null ? `exit status ${code}` : `signal: ${killed}`
    // As protobuf's JSON leaves out what is zero.
    const exitCode = code === 0 ? {} : { exitCode: code ?? -1 }
    send({ end: { ...exitCode, ...(killed === null && { exited: true }), status } })
    void isStarted.then(() => response.writableEnded || response.end(frame({}, 2)))
  })
}

function streamInput(box: Box, body: Buffer, response: ServerResponse): void {
  let target: BoxProcess | undefined
  for (const frame of framesOf(body).map((each) => StreamRequest.parse(each))) {
    if ('start' in frame) target = find(box, frame.start.process)
    else if (target !== undefined) give(target, frame.data.input.stdin)
  }
  if (target === undefined) return endStream(response, 'not_found')
  response.writeHead(200, { 'content-type': 'application/connect+json' })
  response.write(frame({}))
  response.end(frame({}, 2))
}

/** null: there is no such process. */
function unary(box: Box, method: string, message: unknown, context: EnvdContext): object | null {
  const of = <T extends z.ZodRawShape>(shape: T) =>
    z.strictObject({ process: Selector, ...shape }).parse(message) as z.infer<z.ZodObject<T>> & {
      process: z.infer<typeof Selector>
    }
  if (method === 'List') {
    const processes = [...box.processes.values()].map(({ pid, tag, cmd, args }) => ({
      pid,
      ...(tag !== null && { tag }),
      config: { cmd, args, envs: {} },
    }))
    return { processes }
  }
  if (method === 'SendInput') {
    const { process, input } = of({ input: Input })
    const found = find(box, process)
    if (found) give(found, input.stdin)
    return found ? {} : null
  }
  if (method === 'CloseStdin') {
    const found = find(box, of({}).process)
    found?.child.stdin?.end()
    return found ? {} : null
  }
  if (method === 'SendSignal') {
    const order = of({ signal: z.enum(['SIGNAL_SIGKILL', 'SIGNAL_SIGTERM']) })
    const found = find(box, order.process)
    if (found) signal(found, order.signal === 'SIGNAL_SIGKILL' ? 'SIGKILL' : 'SIGTERM')
    return found ? {} : null
  }
  return context.unknown(`process.Process/${method}`)
}

function find(box: Box, selector: z.infer<typeof Selector>): BoxProcess | undefined {
  if ('pid' in selector) return box.processes.get(selector.pid)
  return [...box.processes.values()].find(({ tag }) => tag === selector.tag)
}

function give(process: BoxProcess, base64: string): void {
  const bytes = Buffer.from(base64, 'base64')
  process.input += bytes.toString()
  process.child.stdin?.write(bytes)
}

function signal({ pid }: BoxProcess, name: 'SIGKILL' | 'SIGTERM'): void {
  for (const inner of innerPids(pid)) {
    try {
      process.kill(inner, name)
    } catch {
      // gone already
    }
  }
}

function endStream(response: ServerResponse, code: string): void {
  response.writeHead(200, { 'content-type': 'application/connect+json' })
  response.end(frame({ error: { code, message: 'process not found' } }, 2))
}

function frame(message: object, flags = 0): Buffer {
  const body = Buffer.from(JSON.stringify(message))
  const head = Buffer.alloc(5)
  head.writeUInt8(flags)
  head.writeUInt32BE(body.length, 1)
  return Buffer.concat([head, body])
}

function framesOf(body: Buffer): unknown[] {
  const found: unknown[] = []
  for (let at = 0; at + 5 <= body.length;) {
    const size = body.readUInt32BE(at + 1)
    found.push(JSON.parse(body.toString('utf8', at + 5, at + 5 + size)))
    at += 5 + size
  }
  return found
}
