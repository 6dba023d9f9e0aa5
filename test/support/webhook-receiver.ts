import { createHmac } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, beforeEach } from 'vitest'

export interface Received {
  path: string
  headers: Record<string, string | undefined>
  text: string
  // Tests look at many shapes.
  // oxlint-disable-next-line typescript/no-explicit-any
  json: any
}
/** A status, or what else an endpoint may do to its caller. */
export type Behaviour = number | 'hang' | 'close' | { redirectTo: string }

/** A real endpoint on loopback: keeps what it gets, and does to each path what the test says. */
export function useReceiver() {
  const received: Received[] = []
  const behaviours = new Map<string, Behaviour[]>()
  const server = createServer((request, response) => void take(request, response))
  beforeAll(() => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve)))
  beforeEach(() => {
    received.length = 0
    behaviours.clear()
  })
  afterAll(() => {
    server.closeAllConnections()
    server.close()
  })

  async function take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let text = ''
    for await (const chunk of request) text += String(chunk)
    const path = request.url ?? ''
    const headers = request.headers as Received['headers']
    received.push({ path, headers, text, json: JSON.parse(text) })
    behave(request, response, nextFor(path))
  }

  /** The last one stays. */
  function nextFor(path: string): Behaviour {
    const list = behaviours.get(path) ?? [204]
    return (list.length > 1 ? list.shift() : list[0]) ?? 204
  }

  function behave(request: IncomingMessage, response: ServerResponse, what: Behaviour): void {
    if (what === 'hang') return
    if (what === 'close') return void request.socket.destroy()
    if (typeof what === 'number') return void response.writeHead(what).end()
    response.writeHead(302, { location: what.redirectTo }).end('go there')
  }

  return {
    received,
    at: (path: string) => received.filter((post) => post.path === path),
    url: (path: string) => `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`,
    behave: (path: string, ...list: Behaviour[]) => void behaviours.set(path, list),
  }
}

/** As a receiver would do it, with nothing of ours. */
export function hasSignature({ headers, text }: Received, secret: string, now: number): boolean {
  const [, seconds, mac] =
    /^t=(\d+),v1=([0-9a-f]{64})$/.exec(headers['x-gantry-signature'] ?? '') ?? []
  if (seconds === undefined || Math.abs(now / 1000 - Number(seconds)) > 300) return false
  return mac === createHmac('sha256', secret).update(`${seconds}.${text}`).digest('hex')
}
