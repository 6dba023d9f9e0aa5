import { AppError } from '../../contract/error.ts'

/**
 * A token bucket per name (a key, a sandbox, an address), kept in this isolate: a brake for runaway callers, not a quota.
 * Promises at most `perMinute` of one name in a minute, and that it stays small. The guards ask it before anything is
 * done for a request.
 */
export class RateLimit {
  readonly #perMinute: number
  readonly #buckets = new Map<string, { tokens: number; at: number }>()

  constructor(perMinute: number) {
    this.#perMinute = perMinute
  }

  /** Throws TooMany with the seconds after which the next request will pass. A cost above the limit is the whole of it. */
  take(name: string, now: number, cost = 1): void {
    const wanted = Math.min(cost, this.#perMinute)
    const tokens = this.#tokensOf(name, now)
    const passes = tokens >= wanted
    this.#put(name, { tokens: passes ? tokens - wanted : tokens, at: now })
    if (!passes)
      throw new TooMany(Math.max(1, Math.ceil(((wanted - tokens) * 60) / this.#perMinute)))
  }

  /** What was taken need not have been. */
  giveBack(name: string, now: number): void {
    const tokens = Math.min(this.#perMinute, this.#tokensOf(name, now) + 1)
    this.#put(name, { tokens, at: now })
  }

  #tokensOf(name: string, now: number): number {
    const { tokens, at } = this.#buckets.get(name) ?? { tokens: this.#perMinute, at: now }
    const refilled = tokens + (Math.max(0, now - at) / 60_000) * this.#perMinute
    return Math.min(this.#perMinute, refilled)
  }

  #put(name: string, bucket: { tokens: number; at: number }): void {
    // Last used last, so that the one that is dropped has had the longest time to refill.
    this.#buckets.delete(name)
    this.#buckets.set(name, bucket)
    if (this.#buckets.size <= maxBuckets) return
    for (const oldest of this.#buckets.keys()) return void this.#buckets.delete(oldest)
  }
}

const maxBuckets = 10_000

/** 429. It never crosses an RPC border, so whoever answers it may look for its class. */
export class TooMany extends AppError {
  readonly retryAfterSeconds: number
  constructor(retryAfterSeconds: number) {
    super('rate_limited', `Too many requests: try again in ${retryAfterSeconds} s`)
    this.retryAfterSeconds = retryAfterSeconds
  }
}
