/** One of several keys with the same purpose. The first of a list is used, all of them are understood. */
export interface SecretKey {
  id: string
  secret: Uint8Array<ArrayBuffer>
}

// Not every host's types know CryptoKey by name.
export type ImportedKey = Awaited<ReturnType<typeof crypto.subtle.importKey>>

export function firstSecretKey(keys: readonly SecretKey[]): SecretKey {
  const first = keys[0]
  if (!first) throw new Error('At least one key is needed')
  return first
}

/**
 * Imports a key when it is first used and keeps the result, never the promise: workerd must not await in one request
 * what another one has started.
 */
export function importSecretKeyOnce(
  keys: readonly SecretKey[],
  load: (secret: Uint8Array<ArrayBuffer>) => Promise<ImportedKey>,
): (id: string) => Promise<ImportedKey | null> {
  const imported = new Map<string, ImportedKey>()
  return async (id) => {
    const known = imported.get(id)
    if (known) return known
    const key = keys.find((candidate) => candidate.id === id)
    if (!key) return null
    const fresh = await load(key.secret)
    imported.set(id, fresh)
    return fresh
  }
}
