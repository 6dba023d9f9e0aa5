import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { openlyHeld } from '../../sandbox-agent/enclosure/held.ts'
import { Reader } from '../../sandbox-agent/enclosure/reader.ts'

/** As where there is no enclosure. */
export const openReader = () => new Reader(async () => openlyHeld(undefined))

export function temporaryFolder(): string {
  const path = mkdtempSync(join(tmpdir(), 'gantry-agent-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

interface Received {
  method: string
  path: string
  headers: IncomingMessage['headers']
  body: string
}

/** A real server on loopback that remembers what it was sent. */
export async function serve(
  answer: (received: Received, response: ServerResponse, nth: number) => void | Promise<void>,
): Promise<{ url: string; received: Received[] }> {
  const received: Received[] = []
  const server = createServer((request, response) => {
    void (async () => {
      let body = ''
      for await (const chunk of request as AsyncIterable<Buffer>) body += chunk.toString('utf8')
      const one = {
        method: request.method ?? '',
        path: request.url ?? '',
        headers: request.headers,
        body,
      }
      received.push(one)
      await answer(one, response, received.length)
    })()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, received }
}

export function json(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers })
  response.end(JSON.stringify(body))
}
