import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type CrashPointName, crashPoints } from '../../src/core/actor/crash-points.ts'

export interface CrashServer {
  url: string
  hits: Map<string, number>
  /** The next hit of one of these points after `skip` others, which then waits; null if none comes in time. */
  catchNext(
    points: readonly CrashPointName[],
    skip: number,
    withinMs: number,
  ): Promise<Caught | null>
  close: () => Promise<void>
}
export interface Caught {
  point: CrashPointName
  /** Lets the process go on. If it is dead by now, nothing happens. */
  release(): void
}

/** Every process that reaches a crash point asks here and waits for the answer. */
export async function startCrashServer(): Promise<CrashServer> {
  const hits = new Map<string, number>(crashPoints.map((point) => [point, 0]))
  let trap: ((point: CrashPointName, response: ServerResponse) => boolean) | undefined

  const server = createServer((request, response) => {
    request.resume()
    response.on('error', () => undefined)
    const point = (request.url ?? '').slice(1) as CrashPointName
    hits.set(point, (hits.get(point) ?? 0) + 1)
    if (!trap?.(point, response)) goOn(response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    hits,
    catchNext: (points, skip, withinMs) =>
      new Promise((resolve) => {
        let left = skip
        const end = (caught: Caught | null) => {
          trap = undefined
          clearTimeout(timeout)
          resolve(caught)
        }
        const timeout = setTimeout(() => end(null), withinMs)
        trap = (point, response) => {
          if (!points.includes(point) || left-- > 0) return false
          end({ point, release: () => goOn(response) })
          return true
        }
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
