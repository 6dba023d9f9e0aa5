/**
 * The API keys that were seen in the last moments, by the hash of their secret: a request costs libSQL nothing, and keys
 * that are in use work while it is away. Promises that a change of a key counts within 30 s, and at once in the isolate
 * that made it (`forget`); that guessing neither costs a query each time nor drives known keys out; that nothing in it
 * belongs to one request: plain data, no promises. The guards ask it, one per isolate.
 */
import { type ApiKey, apiKeyPattern } from '../../contract/key.ts'
import { findKey, touchKey } from '../../core/registry/keys.ts'
import type { AppDeps } from './deps.ts'

const keepKnownMs = 30_000
const keepUnknownMs = 5000
const maxKnown = 5000
const maxUnknown = 1000
const touchEveryMs = 60_000

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

  constructor(deps: Pick<AppDeps, 'db' | 'crypto' | 'now' | 'defer' | 'log'>) {
    this.#deps = deps
  }

  /** null: not a key. Throws storage_unavailable if that cannot be known. */
  async find(secret: string): Promise<KnownKey | null> {
    if (!apiKeyPattern.test(secret)) return null
    const hash = await this.#deps.crypto.sha256(secret)
    const now = this.#deps.now()
    const known = this.#known.get(hash)
    if (known && known.until > now) return known
    if ((this.#unknownUntil.get(hash) ?? 0) > now) return null
    const key = await findKey(this.#deps.db(), hash)
    if (!key) {
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
  forget(keyId: string): void {
    for (const [hash, { key }] of this.#known) if (key.id === keyId) this.#known.delete(hash)
  }
}

/** A Map keeps the order of insertion, so its first entry is the oldest. */
function putBounded<V>(map: Map<string, V>, name: string, value: V, max: number): void {
  map.delete(name)
  map.set(name, value)
  if (map.size <= max) return
  const oldest = map.keys().next().value
  if (oldest !== undefined) map.delete(oldest)
}
