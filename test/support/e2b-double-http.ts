import type { IncomingMessage, ServerResponse } from 'node:http'

export interface EnvdContext {
  /** What the vendor's daemon writes to its log: whole requests, but not the content of streams. */
  log: (line: string) => void
  unknown: (call: string) => never
}

export function userOf(request: IncomingMessage): string {
  const [, encoded = ''] = (request.headers.authorization ?? '').split('Basic ')
  const [user = ''] = Buffer.from(encoded, 'base64').toString().split(':')
  return user === '' ? 'user' : user
}

export function reply(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}
