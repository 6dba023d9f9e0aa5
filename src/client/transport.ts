// One way to the API for all of the client: it adds the key, asks again where that cannot do harm, checks what comes back
// by the contract's schema, and throws what is refused as a GantryError with the code that the contract names.

import type { z } from 'zod'
import { ErrorBody, type ErrorCode, type ErrorDetail, errorTable } from '../contract/error.ts'

export interface ClientOptions {
  /** Where the deployment is, such as https://gantry.example.com */
  url: string
  key: string
  /** Default: the platform's. */
  fetch?: (request: Request) => Promise<Response>
  /** How often a request is sent again that had no answer, or one that says so. Default: 4. */
  retries?: number
  /** Between two of them; doubles each time. Default: 250. */
  retryMs?: number
}

/** What the deployment refuses, or what it could not be asked. */
export class GantryError extends Error {
  /** null: there was no answer that could be read. */
  readonly code: ErrorCode | null
  readonly status: number | null
  readonly details: readonly ErrorDetail[]

  constructor(
    message: string,
    { code = null, status = null, details = [] }: Partial<Omit<GantryError, keyof Error>> = {},
  ) {
    super(message)
    this.name = 'GantryError'
    this.code = code
    this.status = status
    this.details = details
  }
}

export interface Asked<T> {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  path: string
  query?: Record<string, string | number | undefined>
  body?: unknown
  /** What it answers. */
  schema: z.ZodType<T>
  /** With one, a POST may be sent again. */
  idempotencyKey?: string
  signal?: AbortSignal | undefined
}

export class Transport {
  readonly #options: ClientOptions

  constructor(options: ClientOptions) {
    this.#options = options
  }

  /** Sent again only if it may be: reads, and what carries a key. */
  async ask<T>(asked: Asked<T>): Promise<T> {
    const { retries = 4, retryMs = 250 } = this.#options
    const mayRepeat = asked.method !== 'POST' || asked.idempotencyKey !== undefined
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await this.#once(asked)
      } catch (error) {
        const isOver = attempt >= retries || asked.signal?.aborted === true
        if (isOver || !mayRepeat || !(error instanceof GantryError) || !isPassing(error))
          throw error
        await transportPause(retryMs * 2 ** attempt, asked.signal)
      }
    }
  }

  async #once<T>(asked: Asked<T>): Promise<T> {
    const response = await this.open(asked)
    const text = await response.text()
    const json = parseJson(text)
    if (!response.ok) throw transportRefusal(response.status, json)
    const parsed = asked.schema.safeParse(json)
    if (parsed.success) return parsed.data
    throw new GantryError(`Cannot read the answer of ${asked.method} ${asked.path}`, {
      status: response.status,
    })
  }

  /** The answer itself, for streams. Throws only if there is none. */
  async open(asked: Omit<Asked<unknown>, 'schema'>, headers: Record<string, string> = {}) {
    const { url, key, fetch: send = (request: Request) => fetch(request) } = this.#options
    const target = new URL(url.replace(/\/$/, '') + asked.path)
    for (const [name, value] of Object.entries(asked.query ?? {}))
      if (value !== undefined) target.searchParams.set(name, String(value))
    const request = new Request(target, {
      method: asked.method,
      headers: {
        authorization: `Bearer ${key}`,
        ...(asked.body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(asked.idempotencyKey === undefined ? {} : { 'idempotency-key': asked.idempotencyKey }),
        ...headers,
      },
      ...(asked.body === undefined ? {} : { body: JSON.stringify(asked.body) }),
      signal: asked.signal ?? null,
    })
    try {
      return await send(request)
    } catch (error) {
      asked.signal?.throwIfAborted()
      throw new GantryError(`Cannot reach ${target.origin}: ${String(error)}`)
    }
  }
}

export function transportRefusal(status: number, json: unknown): GantryError {
  const parsed = ErrorBody.safeParse(json)
  if (!parsed.success) return new GantryError(`Refused with status ${status}`, { status })
  const { code, message, details = [] } = parsed.data.error
  return new GantryError(message, { code, status, details })
}

/** No answer, or one of a code that says that another try may help. */
export const isPassing = ({ code, status }: GantryError): boolean =>
  code === null ? status === null || status >= 500 : errorTable[code].retryable

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return null
  }
}

export function transportPause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const onAbort = () => {
      clearTimeout(timer)
      reject(signal?.reason instanceof Error ? signal.reason : new Error('Aborted'))
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', onAbort)
      resolve()
    }, ms)
    signal?.addEventListener('abort', onAbort, { once: true })
  })
}
