import { setTimeout as sleep } from 'node:timers/promises'
import { type ErrorCode, errorTable } from '../../src/contract/error.ts'

export interface Answer {
  status: number
  text: string
  code: ErrorCode | null
  replayed: boolean
}

/** Problems that make the run fail, with what was being done. */
export type Complain = (problem: string) => void

export interface ClientOptions {
  url: string
  authorization: string
  complain: Complain
  /** Resolves at once while the control plane is up. */
  up: () => Promise<void>
  /** Since when nothing has been killed; null while the storm goes on, in which anything may take long. */
  calmSince: () => number | null
}

/** Longer than any repair takes. */
const giveUpMs = 60_000

/** Like the relay: the same request again until there is an answer, on network errors and what is marked retryable. */
export class Client {
  readonly #options: ClientOptions
  retries = 0

  constructor(options: ClientOptions) {
    this.#options = options
  }

  async send(method: string, path: string, body?: unknown, key?: string): Promise<Answer> {
    const startedAt = Date.now()
    for (;;) {
      await this.#options.up()
      const answer = await this.#once(method, path, body, key)
      if (answer && !isRetryable(answer)) return answer
      this.retries += 1
      const calmSince = this.#options.calmSince()
      if (calmSince !== null && Date.now() - Math.max(startedAt, calmSince) > giveUpMs) {
        this.#options.complain(
          `${method} ${path} has no answer after ${giveUpMs / 1000} s: ${answer?.text ?? 'no connection'}`,
        )
        return answer ?? { status: 0, text: '', code: null, replayed: false }
      }
      await sleep(5 + ((this.retries * 7) % 30))
    }
  }

  async json<T>(method: string, path: string, body?: unknown, key?: string): Promise<T | null> {
    const answer = await this.send(method, path, body, key)
    if (answer.status >= 200 && answer.status < 300) return JSON.parse(answer.text || 'null') as T
    if (answer.status !== 404)
      this.#options.complain(`${method} ${path}: ${answer.status} ${answer.text}`)
    return null
  }

  async #once(
    method: string,
    path: string,
    body: unknown,
    key: string | undefined,
  ): Promise<Answer | null> {
    try {
      const response = await fetch(this.#options.url + path, {
        method,
        headers: {
          authorization: this.#options.authorization,
          ...(body === undefined ? {} : { 'content-type': contentType(body) }),
          ...(key === undefined ? {} : { 'idempotency-key': key }),
        },
        ...(body === undefined
          ? {}
          : { body: body instanceof Uint8Array ? new Uint8Array(body) : JSON.stringify(body) }),
        signal: AbortSignal.timeout(120_000),
      })
      const text = await response.text()
      return {
        status: response.status,
        text,
        code: response.ok ? null : codeOf(text),
        replayed: response.headers.get('x-gantry-replayed') === 'true',
      }
    } catch {
      return null
    }
  }
}

const contentType = (body: unknown) =>
  body instanceof Uint8Array ? 'application/octet-stream' : 'application/json'

function isRetryable({ status, code }: Answer): boolean {
  return [429, 502, 503, 504].includes(status) || (code !== null && errorTable[code].retryable)
}

function codeOf(text: string): ErrorCode | null {
  try {
    return (JSON.parse(text) as { error: { code: ErrorCode } }).error.code
  } catch {
    return null
  }
}
