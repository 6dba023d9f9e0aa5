import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

interface FaultyProxy {
  url: string
  /** The next request is passed on, but its answer is not. */
  loseNextAnswer(): void
  failNext(kind: 'limited' | 'broken' | 'cut'): void
  close(): void
}

/** Passes everything on to the server at `target`, except for what it was told to spoil. */
export async function startFaultyProxy(target: string): Promise<FaultyProxy> {
  let fault: 'limited' | 'broken' | 'cut' | 'lost' | null = null
  const server = createServer((incoming, outgoing) => {
    const now = fault
    fault = null
    if (now === 'cut') incoming.destroy()
    else if (now === 'limited' || now === 'broken')
      outgoing.writeHead(now === 'limited' ? 429 : 500).end('spoiled')
    else pass(target, incoming, outgoing, now === 'lost')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    loseNextAnswer: () => void (fault = 'lost'),
    failNext: (kind) => void (fault = kind),
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

function pass(
  target: string,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  isLost: boolean,
): void {
  const { method, headers, url } = incoming
  const onward = request(`${target}${url}`, { method, headers }, (answer) => {
    if (isLost) {
      // Only now: by its answer the order is known to have been carried out.
      answer.resume().on('end', () => outgoing.destroy())
      return
    }
    outgoing.writeHead(answer.statusCode ?? 500, answer.headers)
    answer.pipe(outgoing)
  })
  onward.on('error', () => outgoing.destroy())
  incoming.pipe(onward)
}
