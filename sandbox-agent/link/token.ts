// The sandbox's JWT, which the control plane renews over the link. The agent reads only its times, to know when to ask
// for a new one; whoever receives the token verifies it. The value never reaches a log. The link, the control plane's
// requests and the relay take it from here.

import { hideFromLogs } from '../log.ts'

export class Token {
  #value: string
  #issuedAt: number
  #expiresAt: number

  constructor(value: string) {
    this.#value = value
    hideFromLogs(value)
    ;[this.#issuedAt, this.#expiresAt] = timesOf(value)
  }

  get value(): string {
    return this.#value
  }

  replace(value: string): void {
    hideFromLogs(value)
    this.#value = value
    ;[this.#issuedAt, this.#expiresAt] = timesOf(value)
  }

  /** Less than a third of its life is left. */
  isAging(now: number): boolean {
    return now > this.#expiresAt - (this.#expiresAt - this.#issuedAt) / 3
  }
}

function timesOf(token: string): [issuedAt: number, expiresAt: number] {
  try {
    const payload = Buffer.from(token.split('.')[1] ?? '', 'base64url').toString('utf8')
    const { iat, exp } = JSON.parse(payload) as { iat: number; exp: number }
    return Number.isFinite(iat + exp) ? [iat * 1000, exp * 1000] : never
  } catch {
    return never
  }
}

const never: [number, number] = [0, Number.MAX_SAFE_INTEGER]
