// The only way out of an enclosure's network: an HTTP proxy of the agent (CONNECT, and plain requests with a whole URL),
// and the same by SOCKS on a port of its own.
// Names are resolved here, and every connection goes to the address that was looked at. Which host and port may be
// reached is the control plane's decision, asked once per turn; an address that is not the public internet's is refused
// whatever that says, unless the deployment names it. A question that waits for a person holds the connection for 25 s.

import type { LookupAddress } from 'node:dns'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { connect, isIP, type Server as Listener, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { log, messageOf } from '../log.ts'
import { isPublicAddress } from './addresses.ts'
import { answerSocks, readSocksTarget, socksAnswers } from './socks.ts'

const http = process.getBuiltinModule('node:http')

export interface EgressOptions {
  /** undefined: it still waits for somebody. */
  decide: (
    host: string,
    port: number,
    /** Names of what is added to the requests. */
    secrets?: readonly string[],
  ) => Promise<{ allow: boolean; reason: string } | undefined>
  /** `host:port` that may have any address. */
  privateHosts: () => readonly string[]
  resolve?: (host: string) => Promise<LookupAddress[]>
}

class Refused extends Error {}

const connectMs = 30_000
/** Of one listener at a time: each one costs the agent memory and a descriptor. */
const maxConnections = 1024

export class Egress {
  readonly #options: EgressOptions
  readonly #server: Server
  readonly #inside: { http?: Listener; socks?: Listener } = {}

  constructor(options: EgressOptions) {
    this.#options = options
    this.#server = http.createServer((request, response) => void this.#forward(request, response))
    this.#server.on('connect', (request, socket, head) => void this.#tunnel(request, socket, head))
    this.#server.requestTimeout = 0
  }

  /** What comes to a listener in an enclosure's own network. One at a time. */
  serve(listener: Listener): void {
    this.#inside.http?.close()
    this.#inside.http = listener
    listener.maxConnections = maxConnections
    listener.on('connection', (socket) => this.#server.emit('connection', socket))
  }

  /** The same for programs that speak SOCKS 5. */
  serveSocks(listener: Listener): void {
    this.#inside.socks?.close()
    this.#inside.socks = listener
    listener.maxConnections = maxConnections
    listener.on('connection', (socket) => void this.#socks(socket))
  }

  close(): void {
    this.#inside.http?.close()
    this.#inside.socks?.close()
    this.#server.closeAllConnections()
  }

  async #tunnel(request: IncomingMessage, inside: Duplex, head: Buffer): Promise<void> {
    inside.on('error', () => undefined)
    const target = parseTarget(request.url ?? '')
    try {
      const outside = await this.#open(target)
      inside.write('HTTP/1.1 200 Connection established\r\n\r\n')
      if (head.length > 0) outside.write(head)
      connectBoth(inside, outside, target)
    } catch (error) {
      const [status, message] = refusalOf(error)
      inside.end(
        `HTTP/1.1 ${status}\r\nconnection: close\r\ncontent-type: text/plain\r\n\r\n${message}\n`,
      )
    }
  }

  async #socks(inside: Socket): Promise<void> {
    inside.on('error', () => undefined)
    const name = await readSocksTarget(inside)
    if (name === undefined) return
    const target = parseTarget(name)
    try {
      const outside = await this.#open(target)
      answerSocks(inside, socksAnswers.done)
      connectBoth(inside, outside, target)
    } catch (error) {
      const isRefused = error instanceof Refused
      log('egress.refused', { target: name.slice(0, 300), reason: messageOf(error) })
      answerSocks(inside, isRefused ? socksAnswers.notAllowed : socksAnswers.unreachable)
    }
  }

  async #forward(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const url = parseUrl(request.url ?? '')
      const target = targetOf(url.hostname, Number(url.port || 80))
      const socket = await this.#open(target)
      const { 'proxy-connection': _, 'proxy-authorization': __, ...headers } = request.headers
      const sent = http.request({
        createConnection: () => socket,
        method: request.method,
        path: `${url.pathname}${url.search}`,
        headers: { ...headers, host: url.host, connection: 'close' },
      })
      sent.on('response', (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers)
        answer.pipe(response)
      })
      sent.on('error', () => response.destroy())
      response.on('close', () => socket.destroy())
      socket.once('close', () =>
        log('egress', { ...target, sent: socket.bytesWritten, received: socket.bytesRead }),
      )
      if (response.destroyed) return void sent.destroy()
      request.pipe(sent)
    } catch (error) {
      const [status, message] = refusalOf(error)
      response.writeHead(Number(status.slice(0, 3)), { 'content-type': 'text/plain' })
      response.end(`${message}\n`)
    }
  }

  /**
   * A number is looked at before anybody is asked: what is always refused is not worth a question. A name is resolved
   * only once it is allowed, since looking it up tells its name server what it says.
   */
  async #open(target: Target | undefined): Promise<Socket> {
    if (!target) throw new Refused('Gantry refused it: no host and port')
    if (isIP(target.host)) this.#mustBePublic(target, target.host)
    const answer = await this.#options.decide(target.host, target.port)
    const name = `${target.host}:${target.port}`
    if (!answer)
      throw new Refused(`Gantry waits for an approval of ${name}: try again once it is given`)
    if (!answer.allow) throw new Refused(`Gantry refused ${name}: ${answer.reason}`)
    return open(await this.#find(target), target.port)
  }

  async #find(target: Target): Promise<string> {
    if (isIP(target.host)) return target.host
    const found = await (this.#options.resolve ?? lookUp)(target.host)
    for (const { address } of found) this.#mustBePublic(target, address)
    if (!found[0]) throw new Error(`${target.host} has no address`)
    return found[0].address
  }

  #mustBePublic({ host, port }: Target, address: string): void {
    if (isPublicAddress(address) || this.#options.privateHosts().includes(`${host}:${port}`)) return
    throw new Refused(`Gantry refused ${host}:${port}: ${address} is not on the internet`)
  }
}

function connectBoth(inside: Duplex, outside: Socket, target: Target | undefined): void {
  inside.pipe(outside).pipe(inside)
  inside.once('close', () => outside.destroy())
  // It may have left while somebody was asked: nobody would end what was opened for it.
  if (inside.destroyed) outside.destroy()
  outside.once('close', () => {
    const { bytesWritten: sent, bytesRead: received } = outside
    log('egress', { ...target, sent, received })
    inside.destroy()
  })
}

interface Target {
  host: string
  port: number
}

function parseTarget(text: string): Target | undefined {
  // Other letters than these may be turned into others on the way to a name server.
  const match = /^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})$/.exec(text)
  return match?.[1] ? targetOf(match[1], Number(match[2])) : undefined
}

/** undefined: no host has such a name, as "a..b" or "a..": what is judged must be what is looked up. */
function targetOf(name: string, port: number): Target | undefined {
  const host = bare(name).toLowerCase()
  const isName = host.split('.').every((label) => label !== '')
  return (isIP(host) > 0 || isName) && port > 0 && port < 65_536 ? { host, port } : undefined
}

function parseUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url?.protocol !== 'http:') throw new Refused('Gantry refused it: not a whole http URL')
  return url
}

/** Without the brackets of a number and the dot of the root, which rules do not know. */
const bare = (host: string) => host.replace(/^\[|\]$|\.$/g, '')

async function lookUp(host: string): Promise<LookupAddress[]> {
  return process.getBuiltinModule('node:dns').promises.lookup(host, { all: true })
}

function open(host: string, port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, timeout: connectMs })
    socket.once('connect', () => {
      socket.setTimeout(0)
      socket.off('error', reject)
      socket.on('error', () => undefined)
      resolve(socket)
    })
    socket.once('timeout', () => socket.destroy(new Error('No answer in time')))
    socket.once('error', reject)
  })
}

function refusalOf(error: unknown): [status: string, message: string] {
  return error instanceof Refused
    ? ['403 Forbidden', error.message]
    : ['502 Bad Gateway', messageOf(error)]
}
