import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { AppDeps } from '../../src/http/app.ts'

export const vendorKey = 'sk-real-key-of-the-vendor'

export interface VendorRequest {
  method: string
  url: string
  headers: IncomingHttpHeaders
  body: string
}

/** A model vendor on loopback: keeps what it is sent, and answers as the test says. */
export class Vendor {
  readonly seen: VendorRequest[] = []
  answer: (response: ServerResponse, request: VendorRequest) => void = (response) =>
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
  readonly #server = createServer((incoming, response) => {
    let body = ''
    incoming.on('data', (chunk: Buffer) => (body += chunk.toString()))
    incoming.on('end', () => {
      const { method = '', url = '', headers } = incoming
      const request = { method, url, headers, body }
      this.seen.push(request)
      this.answer(response, request)
    })
  })

  async start(): Promise<AppDeps['config']['models']> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
    const baseUrl = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
    return {
      anthropic: { baseUrl, apiKey: vendorKey },
      litellm: { baseUrl: `${baseUrl}/v1`, apiKey: vendorKey },
    }
  }

  stop(): void {
    this.#server.closeAllConnections()
    this.#server.close()
  }
}
