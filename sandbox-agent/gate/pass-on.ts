import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import { messageOf } from '../log.ts'

const http = process.getBuiltinModule('node:http')

interface PassOn {
  /** At the control plane. */
  url: URL
  /** The sandbox's JWT. */
  token: string
  /** Of the answer. */
  change?: (headers: IncomingHttpHeaders) => IncomingHttpHeaders
  onPiece?: (bytes: number) => void
  /** If the control plane cannot be reached. */
  refuse: (message: string) => void
}

/** Streams a request from inside to the control plane and its answer back, with the sandbox's token in place of its own. */
export function passOn(request: IncomingMessage, response: ServerResponse, to: PassOn): void {
  const { headers: given } = request
  const { host: _host, 'x-api-key': _key, connection: _connection, expect: _, ...headers } = given
  const { request: send } =
    to.url.protocol === 'https:' ? process.getBuiltinModule('node:https') : http
  const upstream = send(to.url, {
    method: request.method,
    headers: { ...headers, authorization: `Bearer ${to.token}` },
  })
  response.on('close', () => upstream.destroy())
  upstream.on('response', (answer) => {
    const { connection: _, 'transfer-encoding': __, ...kept } = answer.headers
    response.writeHead(answer.statusCode ?? 502, to.change?.(kept) ?? kept)
    answer.on('data', (chunk: Buffer) => to.onPiece?.(chunk.length))
    answer.pipe(response)
    answer.on('error', () => response.destroy())
  })
  upstream.on('error', (error) => {
    if (response.headersSent) response.destroy()
    else to.refuse(`The control plane cannot be reached: ${messageOf(error)}`)
  })
  request.pipe(upstream)
}
