/**
 * A token bucket per key, kept in this isolate: a brake for runaway callers, not a quota. Promises at most `perMinute`
 * requests of one key in a minute, and that it stays small. The guard for keys asks it, before the scope is looked at.
 */
export class RateLimit {
  readonly #perMinute: number
  readonly #buckets = new Map<string, { tokens: number; at: number }>()

  constructor(perMinute: number) {
    this.#perMinute = perMinute
  }

  /** Zero: go on. Otherwise the seconds after which the next request will pass. */
  take(keyId: string, now: number): number {
    const bucket = this.#buckets.get(keyId) ?? { tokens: this.#perMinute, at: now }
    const refilled = bucket.tokens + (Math.max(0, now - bucket.at) / 60_000) * this.#perMinute
    const tokens = Math.min(this.#perMinute, refilled)
    const passes = tokens >= 1
    this.#put(keyId, { tokens: passes ? tokens - 1 : tokens, at: now })
    return passes ? 0 : Math.max(1, Math.ceil(((1 - tokens) * 60) / this.#perMinute))
  }

  #put(keyId: string, bucket: { tokens: number; at: number }): void {
    // Last used last, so that the one that is dropped has had the longest time to refill.
    this.#buckets.delete(keyId)
    this.#buckets.set(keyId, bucket)
    if (this.#buckets.size <= maxBuckets) return
    for (const oldest of this.#buckets.keys()) return void this.#buckets.delete(oldest)
  }
}

const maxBuckets = 10_000
