// What the agent asks of its session over HTTP, beside the link: the manifest, the env values, and whether this sandbox
// is fenced. A request is tried up to eight times. The agent calls it.

import type { Boot } from '../../src/contract/manifest.ts'
import { messageOf, sleep } from '../log.ts'
import type { Token } from './token.ts'
import type { UploadOptions } from './upload.ts'

const maxTries = 8

export class ControlPlane {
  readonly #boot: Boot
  readonly #token: Token
  #stopped = false

  constructor(boot: Boot, token: Token) {
    this.#boot = boot
    this.#token = token
  }

  stop(): void {
    this.#stopped = true
  }

  url(path: string): string {
    return `${this.#boot.gatewayUrl}/sandbox/${this.#boot.sessionId}/${path}`
  }

  get upload(): UploadOptions {
    return { url: this.url('artifacts'), token: () => this.#token.value }
  }

  /** Where the bundle of one collect goes. */
  evidence(collectId: string): UploadOptions {
    const name = encodeURIComponent(collectId)
    return { url: this.url(`evidence/${name}`), token: () => this.#token.value }
  }

  /** Where the list of the workspace's abilities goes, or the folder of one. */
  abilities(hash: string | null): UploadOptions {
    const path = hash === null ? 'abilities' : `abilities/${hash}`
    return { url: this.url(path), token: () => this.#token.value }
  }

  async fetch<T>(path: string, schema: { parse(value: unknown): T }): Promise<T> {
    let reason = ''
    for (let tries = 0; tries < maxTries && !this.#stopped; tries += 1) {
      if (tries > 0) await sleep(Math.min(250 * 2 ** tries, 5000))
      try {
        const response = await this.#get(path)
        const text = await response.text()
        if (response.ok) return schema.parse(JSON.parse(text))
        reason = `${response.status} ${text.slice(0, 200)}`
        // An expired token is renewed over the link meanwhile.
        if (response.status < 500 && response.status !== 429 && response.status !== 401) break
      } catch (error) {
        reason = messageOf(error)
      }
    }
    throw new Error(`Cannot fetch the ${path}: ${reason}`)
  }

  /** Asked without an upgrade, the link's route says why it refuses: a token that is too old is not even renewed. */
  async isFenced(): Promise<boolean> {
    try {
      const response = await this.#get('link')
      const { status } = response
      const text = await response.text()
      return status === 403 || status === 404 || (status === 401 && text.includes('token_expired'))
    } catch {
      return false
    }
  }

  #get(path: string): Promise<Response> {
    return fetch(this.url(path), {
      headers: { authorization: `Bearer ${this.#token.value}` },
      redirect: 'error',
      signal: AbortSignal.timeout(15_000),
    })
  }
}
