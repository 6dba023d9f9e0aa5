/**
 * The API keys that were seen in the last moments, by the hash of their secret: a request costs libSQL nothing, and keys
 * that are in use work while it is away. Promises that a change of a key counts within 30 s, and at once in the isolate
 * that made it (`forget`); that a flood of made-up keys costs libSQL a few queries a minute per address and neither
 * drives known keys out nor holds them up; that nothing in it belongs to one request: plain data, no promises. The
 * guards ask it, one per isolate.
 */
import { type ApiKey, apiKeyPattern } from '../../contract/key.ts'
import { findKey, touchKey } from '../../core/registry/keys.ts'
import type { AppDeps } from './deps.ts'
import { RateLimit } from './rate-limit.ts'

const keepKnownMs = 30_000
const keepUnknownMs = 10_000
const maxKnown = 5000
const maxUnknown = 1000
const touchEveryMs = 60_000
/** Of one address, and of all: so many look-ups a minute may find no key. */
const missesPerMinute = 10
const missesOfAllPerMinute = 1000
/** Who asks for a key that is being looked up waits for the answer, but not for a request that was cut off. */
const lookMs = 20
const lookedUpWithinMs = 3000

interface KnownKey {
  key: ApiKey
  until: number
  touchedAt: number
}

export class KeyCache {
  readonly #deps: Pick<AppDeps, 'db' | 'crypto' | 'now' | 'defer' | 'log'>
  readonly #known = new Map<string, KnownKey>()
  /** Apart from the known ones, so that guessing does not drive them out. */
  readonly #unknownUntil = new Map<string, number>()
  /** Since when somebody looks it up. */
  readonly #looking = new Map<string, number>()
  readonly #misses = new RateLimit(missesPerMinute)
  readonly #missesOfAll = new RateLimit(missesOfAllPerMinute)

  constructor(deps: Pick<AppDeps, 'db' | 'crypto' | 'now' | 'defer' | 'log'>) {
    this.#deps = deps
  }

  /** null: not a key. Throws storage_unavailable if that cannot be known, and TooMany after too many that were none. */
  async find(secret: string, address: string): Promise<KnownKey | null> {
    if (!apiKeyPattern.test(secret)) return null
    const hash = await this.#deps.crypto.sha256(secret)
    // By another request, whose promise must not be awaited here: so it is looked for. Nothing is awaited between the last
    // look and the note below, or all of a burst would look it up.
    while (this.#kept(hash) === undefined && this.#isLookedUp(hash)) await pause(lookMs)
    const kept = this.#kept(hash)
    if (kept !== undefined) return kept
    // A key that was known a while ago is no guess: whoever floods beside it does not hold it up.
    if (this.#known.has(hash)) return await this.#load(hash)
    this.#takeMiss(address)
    this.#looking.set(hash, Date.now())
    let isMiss = false
    try {
      const found = await this.#load(hash)
      isMiss = found === null
      return found
    } finally {
      // Also while libSQL is away: then nobody knows whether it is a guess, and 503 is the answer.
      if (!isMiss) this.#giveMissBack(address)
      this.#looking.delete(hash)
    }
  }

  /** Undefined: it must be looked up. */
  #kept(hash: string): KnownKey | null | undefined {
    const now = this.#deps.now()
    const known = this.#known.get(hash)
    if (known && known.until > now) return known
    return (this.#unknownUntil.get(hash) ?? 0) > now ? null : undefined
  }

  #isLookedUp(hash: string): boolean {
    const since = this.#looking.get(hash)
    return since !== undefined && Date.now() - since <= lookedUpWithinMs
  }

  #takeMiss(address: string): void {
    const now = this.#deps.now()
    this.#misses.take(address, now)
    this.#missesOfAll.take('all', now)
  }

  #giveMissBack(address: string): void {
    const now = this.#deps.now()
    this.#misses.giveBack(address, now)
    this.#missesOfAll.giveBack('all', now)
  }

  async #load(hash: string): Promise<KnownKey | null> {
    const known = this.#known.get(hash)
    const key = await findKey(this.#deps.db(), hash)
    const now = this.#deps.now()
    if (!key) {
      this.#known.delete(hash)
      putBounded(this.#unknownUntil, hash, now + keepUnknownMs, maxUnknown)
      return null
    }
    const touchedAt = Math.max(known?.touchedAt ?? 0, key.lastUsedAt ?? 0)
    const fresh = { key, until: now + keepKnownMs, touchedAt }
    putBounded(this.#known, hash, fresh, maxKnown)
    return fresh
  }

  /** Writes when the key was last used, at most once a minute and never in the way of the request. */
  touch(known: KnownKey): void {
    const now = this.#deps.now()
    if (now - known.touchedAt < touchEveryMs) return
    known.touchedAt = now
    const { id: keyId, organisationId } = known.key
    this.#deps.defer(
      touchKey(this.#deps.db(), now, keyId).catch((error: unknown) =>
        this.#deps.log('warn', 'Cannot note the use of a key', {
          ...{ organisationId, keyId, error: String(error) },
        }),
      ),
    )
  }

  /** After a revocation; other isolates learn of it when their entry ends. */
  forget(isRevoked: (key: ApiKey) => boolean): void {
    for (const [hash, { key }] of this.#known) if (isRevoked(key)) this.#known.delete(hash)
  }
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

/** A Map keeps the order of insertion, so its first entry is the oldest. */
function putBounded<V>(map: Map<string, V>, name: string, value: V, max: number): void {
  map.delete(name)
  map.set(name, value)
  if (map.size <= max) return
  const oldest = map.keys().next().value
  if (oldest !== undefined) map.delete(oldest)
}
