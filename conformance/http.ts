import { type IncomingHttpHeaders, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'

export interface Answer {
  status: number
  headers: IncomingHttpHeaders
  text: string
}

export interface Outgoing {
  method: string
  url: string
  headers?: Record<string, string>
  body?: string | Uint8Array
  timeoutMs: number
}

export interface Sending {
  answer: Promise<Answer>
  /** Breaks the connection, whatever has been sent or answered. */
  cut(): void
}

/** One request on a connection of its own: fetch can neither be cut for sure nor ask for an upgrade. */
export function startRequest({ method, url, headers = {}, body, timeoutMs }: Outgoing): Sending {
  const send = url.startsWith('https:') ? requestHttps : requestHttp
  const request = send(url, { method, headers, agent: false })
  const answer = new Promise<Answer>((resolve, reject) => {
    request.setTimeout(timeoutMs, () =>
      request.destroy(new Error(`No answer to ${method} within ${timeoutMs} ms`)),
    )
    request.on('error', reject)
    request.on('upgrade', (response, socket) => {
      socket.destroy()
      resolve({ status: response.statusCode ?? 0, headers: response.headers, text: '' })
    })
    request.on('response', (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', reject)
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          text: Buffer.concat(chunks).toString(),
        }),
      )
    })
  })
  // Whoever cuts does not always wait for the answer as well.
  answer.catch(() => undefined)
  request.end(body)
  return { answer, cut: () => void request.destroy(new Error('Cut')) }
}
