// The inside's ports for hosts whose secret the control plane adds. Each request asks the gate for its host, as every
// other way out does, and goes to the control plane under the sandbox's token; the secret is neither here nor inside.
// A redirect to the host itself leads back to the port, any other one is the sandbox's to follow, without the secret.

import type { IncomingHttpHeaders, IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Server as Listener } from 'node:net'
import type { Upstream } from '../../src/contract/manifest.ts'
import type { EgressOptions } from '../enclosure/egress.ts'
import { upstreamAddress, upstreamOrigin } from '../enclosure/upstreams.ts'
import { log, messageOf } from '../log.ts'
import { passOn } from './pass-on.ts'

const http = process.getBuiltinModule('node:http')

export interface UpstreamsOptions {
  gatewayUrl: string
  token: () => string
  decide: EgressOptions['decide']
}

/** Of one host at a time. */
const maxOpen = 16

export class Upstreams {
  readonly #options: UpstreamsOptions
  #servers: { server: Server; listener: Listener }[] = []

  constructor(options: UpstreamsOptions) {
    this.#options = options
  }

  /** What comes to these listeners, which an enclosure has opened in their order. Those before are let go. */
  serve(upstreams: readonly Upstream[], listeners: readonly Listener[]): void {
    this.close()
    this.#servers = listeners.map((listener, n) => {
      const server = this.#serverOf(upstreams[n] as Upstream, n)
      listener.on('connection', (socket) => server.emit('connection', socket))
      return { server, listener }
    })
  }

  close(): void {
    for (const { server, listener } of this.#servers) {
      listener.close()
      server.closeAllConnections()
    }
    this.#servers = []
  }

  #serverOf(upstream: Upstream, n: number): Server {
    let open = 0
    const server = http.createServer((request, response) => {
      if (open >= maxOpen) return refuse(response, 429, `${maxOpen} requests are open`)
      open += 1
      response.once('close', () => (open -= 1))
      this.#forward(upstream, n, request, response).catch((error: unknown) =>
        refuse(response, 502, messageOf(error)),
      )
    })
    server.requestTimeout = 0
    return server
  }

  async #forward(
    upstream: Upstream,
    n: number,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    const { gatewayUrl, token, decide } = this.#options
    const { hostname, port, protocol, origin } = new URL(upstreamOrigin(upstream))
    const number = Number(port || (protocol === 'http:' ? 80 : 443))
    const answer = await decide(hostname, number, upstream.secrets)
    const name = `${hostname}:${number}`
    if (!answer)
      return refuse(
        response,
        403,
        `Gantry waits for an approval of ${name}: try again once it is given`,
      )
    if (!answer.allow) return refuse(response, 403, `Gantry refused ${name}: ${answer.reason}`)
    const path = request.url ?? ''
    const base = new URL(`${gatewayUrl}/upstreams/${encodeURIComponent(upstream.host)}/`)
    const url = path.startsWith('/') ? new URL(base.href.slice(0, -1) + path) : base
    // "/../../" would be another route of the control plane, asked under the sandbox's token.
    if (!path.startsWith('/') || !url.href.startsWith(base.href))
      return refuse(response, 400, 'Gantry refused it: not a path')
    let sent = 0
    let received = 0
    request.on('data', (chunk: Buffer) => (sent += chunk.length))
    response.once('close', () => log('egress', { host: hostname, port: number, sent, received }))
    passOn(request, response, {
      url,
      token: token(),
      change: (headers) => withLocation(headers, origin, upstreamAddress(n)),
      onPiece: (bytes) => (received += bytes),
      refuse: (message) => refuse(response, 503, message),
    })
  }
}

function withLocation(
  headers: IncomingHttpHeaders,
  origin: string,
  address: string,
): IncomingHttpHeaders {
  const { location } = headers
  if (location === undefined || !URL.canParse(location, origin)) return headers
  const target = new URL(location, origin)
  if (target.origin !== origin) return headers
  return { ...headers, location: `${address}${target.pathname}${target.search}${target.hash}` }
}

function refuse(response: ServerResponse, status: number, message: string): void {
  if (response.headersSent) return void response.destroy()
  response.writeHead(status, { 'content-type': 'text/plain', connection: 'close' })
  response.end(`${message}\n`)
}
