import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request as httpRequest,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { DownMessage, UpMessage } from '../../src/contract/link.ts'
import {
  type CallRequest,
  claimsOf,
  GatewayWorld,
  parse,
  type ProxyAnswer,
  type ProxyRequest,
  tokenOf,
} from './gateway-world.ts'
import { FrameReader, opcodes, writeFrame } from './websocket-frames.ts'

export interface LinkContext {
  world: GatewayWorld
  sessionId: string
  expired: boolean
}

type Maybe<T> = T | undefined | void

/** One way to be wrong. Hooks change what goes by in place; an answer from `request` ends it there. */
export interface Fault {
  name: string
  /** The case of the conformance runner that must notice, and no other. */
  fails: string
  call?(
    call: CallRequest,
    request: ProxyRequest,
    world: GatewayWorld,
  ): Maybe<ProxyAnswer> | Promise<Maybe<ProxyAnswer>>
  answered?(answer: ProxyAnswer, call: CallRequest, world: GatewayWorld): void
  /** Any other request. */
  other?(request: ProxyRequest, world: GatewayWorld): Maybe<ProxyAnswer>
  open?(request: ProxyRequest, sessionId: string, world: GatewayWorld): Promise<void>
  up?(message: UpMessage, link: LinkContext): void
  down?(message: DownMessage, link: LinkContext): void
  close?(code: number, link: LinkContext): number
}

export interface BrokenGateway {
  url: string
  close(): void
}

/** A proxy before a correct deployment that makes it incorrect, in the ways that are given. */
export async function startBrokenGateway(
  target: { url: string; adminKey: string },
  faults: readonly Fault[],
): Promise<BrokenGateway> {
  const world = new GatewayWorld(target.url, target.adminKey)
  const sockets = new Set<Duplex>()
  const server = createServer((incoming, outgoing) => {
    void answer(incoming, outgoing).catch((error: unknown) => {
      outgoing.statusCode = 599
      outgoing.end(String(error))
    })
  })
  server.on('upgrade', (incoming: IncomingMessage, near: Duplex) => void openLink(incoming, near))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))

  async function answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const request = await readRequest(incoming)
    const call = world.parseCall(request)
    const entry = call && world.begin(call, request.body.toString())
    outgoing.on('close', () => {
      if (entry && !outgoing.writableFinished) entry.state = 'cut'
    })
    const seen = (await intercept(request, call)) ?? (await forward(request))
    world.observe(request, seen)
    if (call) for (const fault of faults) fault.answered?.(seen, call, world)
    if (call && entry) world.end(call, entry, seen)
    outgoing.writeHead(seen.status, seen.headers)
    outgoing.end(seen.text)
  }

  async function intercept(request: ProxyRequest, call: CallRequest | null) {
    for (const fault of faults) {
      const made = call ? await fault.call?.(call, request, world) : fault.other?.(request, world)
      if (made) return made
    }
    return undefined
  }

  async function forward({ method, path, headers, body }: ProxyRequest): Promise<ProxyAnswer> {
    const response = await fetch(`${target.url}${path}`, {
      method,
      headers,
      ...(method === 'GET' || body.length === 0 ? {} : { body: new Uint8Array(body) }),
    })
    const type = response.headers.get('content-type')
    return {
      status: response.status,
      headers: type === null ? {} : { 'content-type': type },
      text: await response.text(),
    }
  }

  async function openLink(incoming: IncomingMessage, near: Duplex): Promise<void> {
    const request = await readRequest(incoming, ['sec-websocket-key', 'sec-websocket-version'])
    Object.assign(request.headers, { connection: 'Upgrade', upgrade: 'websocket' })
    const [, sessionId = ''] = /^\/sandbox\/([^/]+)\/link$/.exec(request.path) ?? []
    const expired = (claimsOf(tokenOf(request))?.exp ?? 0) * 1000 <= Date.now()
    for (const fault of faults) await fault.open?.(request, sessionId, world)
    const upstream = httpRequest(`${target.url}${request.path}`, { headers: request.headers })
    upstream.on('error', () => near.destroy())
    upstream.on('response', (response) => {
      near.write(head(response))
      response.pipe(near)
    })
    upstream.on('upgrade', (response, far, first) => {
      near.write(head(response))
      connect(near, far, first, { world, sessionId, expired })
    })
    upstream.end()
  }

  function connect(near: Duplex, far: Socket, first: Buffer, link: LinkContext): void {
    const upward = new FrameReader()
    const downward = new FrameReader()
    const down = (chunk: Buffer) => {
      for (const frame of downward.read(chunk)) {
        if (frame.opcode === opcodes.close && frame.payload.length >= 2) {
          const code = faults.reduce(
            (code, fault) => fault.close?.(code, link) ?? code,
            frame.payload.readUInt16BE(),
          )
          frame.payload.writeUInt16BE(code)
        }
        if (frame.opcode === opcodes.text)
          frame.payload = change(frame.payload, (message) =>
            faults.forEach((fault) => fault.down?.(message as DownMessage, link)),
          )
        near.write(writeFrame(frame, false))
      }
    }
    near.on('data', (chunk: Buffer) => {
      for (const frame of upward.read(chunk)) {
        if (frame.opcode === opcodes.text)
          frame.payload = change(frame.payload, (message) =>
            faults.forEach((fault) => fault.up?.(message as UpMessage, link)),
          )
        far.write(writeFrame(frame, true))
      }
    })
    far.on('data', down)
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(one)
      one.on('error', () => other.destroy())
      one.on('close', () => {
        sockets.delete(one)
        other.end()
      })
    }
    if (first.length > 0) down(first)
  }

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      for (const socket of sockets) socket.destroy()
      server.closeAllConnections()
      server.close()
    },
  }
}

/** Messages that are not of the protocol stay as they are. */
function change(payload: Buffer, apply: (message: unknown) => void): Buffer {
  const message = parse(payload.toString())
  if (typeof (message as { t?: unknown } | null | undefined)?.t !== 'string') return payload
  apply(message)
  return Buffer.from(JSON.stringify(message))
}

async function readRequest(incoming: IncomingMessage, more: string[] = []): Promise<ProxyRequest> {
  const chunks: Buffer[] = []
  if (more.length === 0) for await (const chunk of incoming) chunks.push(chunk as Buffer)
  const names = ['authorization', 'content-type', 'accept', ...more]
  return {
    method: incoming.method ?? 'GET',
    path: incoming.url ?? '/',
    headers: pick(incoming.headers, names),
    body: Buffer.concat(chunks),
  }
}

function pick(headers: IncomingHttpHeaders, names: string[]): Record<string, string> {
  const found = names.flatMap((name) =>
    headers[name] === undefined ? [] : [[name, String(headers[name])]],
  )
  return Object.fromEntries(found) as Record<string, string>
}

function head({ statusCode, statusMessage, rawHeaders }: IncomingMessage): string {
  const lines = [`HTTP/1.1 ${statusCode} ${statusMessage}`]
  // A body is passed on as plain bytes until the connection ends.
  const dropped = /^(transfer-encoding|content-length|connection|keep-alive)$/i
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? ''
    if (statusCode === 101 || !dropped.test(name)) lines.push(`${name}: ${rawHeaders[at + 1]}`)
  }
  if (statusCode !== 101) lines.push('connection: close')
  return `${lines.join('\r\n')}\r\n\r\n`
}
