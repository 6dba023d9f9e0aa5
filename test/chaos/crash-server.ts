import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type CrashPointName, crashPoints } from '../../src/core/crash-points.ts'

export interface CrashServer {
  url: string
  hits: Map<string, number>
  /** Resolves at the hit after `skip` others, which then waits for `release`; null if it does not come in time. */
  catchNext(point: CrashPointName, skip: number, withinMs: number): Promise<Caught | null>
  close(): Promise<void>
}
export interface Caught {
  /** Lets the process go on. If it is dead by now, nothing happens. */
  release(): void
}

interface Trap {
  point: CrashPointName
  skip: number
  spring: (caught: Caught) => void
}

/** Every process that reaches a crash point asks here and waits for the answer. */
export async function startCrashServer(): Promise<CrashServer> {
  const hits = new Map<string, number>(crashPoints.map((point) => [point, 0]))
  let trap: Trap | undefined

  const server = createServer((request, response) => {
    request.resume()
    response.on('error', () => undefined)
    const point = (request.url ?? '').slice(1)
    hits.set(point, (hits.get(point) ?? 0) + 1)
    if (!trap || trap.point !== point || trap.skip-- > 0) return goOn(response)
    trap.spring({ release: () => goOn(response) })
    trap = undefined
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    hits,
    catchNext: (point, skip, withinMs) =>
      new Promise((resolve) => {
        const timeout = setTimeout(() => {
          trap = undefined
          resolve(null)
        }, withinMs)
        const spring = (caught: Caught) => {
          clearTimeout(timeout)
          resolve(caught)
        }
        trap = { point, skip, spring }
      }),
    close: () => closeServer(server),
  }
}

function goOn(response: ServerResponse): void {
  if (!response.writableEnded) response.writeHead(200).end()
}

export async function closeServer(server: ReturnType<typeof createServer>): Promise<void> {
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
}
