import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { closeServer } from './crash-server.ts'
import type { Effect } from './tools.ts'

export interface EffectsServer {
  url: string
  /** What is on disk now. */
  read(): Effect[]
  close: () => Promise<void>
}

/** The outside world: each request is a line in a file before it is answered. */
export async function startEffectsServer(file: string): Promise<EffectsServer> {
  const server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8')
    request.on('data', (chunk: string) => (body += chunk))
    // A caller that dies in the middle of its request has had no effect.
    request.on('error', () => undefined)
    request.on('end', () => {
      appendFileSync(file, `${body}\n`)
      response.writeHead(204).end()
    })
    response.on('error', () => undefined)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    read: () =>
      (existsSync(file) ? readFileSync(file, 'utf8') : '').split('\n').filter(Boolean).map(parse),
    close: () => closeServer(server),
  }
}

const parse = (line: string) => JSON.parse(line) as Effect
