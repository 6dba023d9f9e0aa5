import { existsSync, readFileSync, rmSync } from 'node:fs'
import { type ApiKey, apiKeyPattern } from '../../src/contract/key.ts'
import {
  findKey,
  type KeyOrder,
  newKeyId,
  newKeySecret,
  storeKey,
} from '../../src/core/registry/keys.ts'
import type { Crypto, Db } from '../../src/core/ports.ts'
import { linkPrivateFile, writePrivateFile } from '../state/private-files.ts'

interface KeptKey {
  key: ApiKey
  secret: string
  created: boolean
}

/**
 * A key whose secret is in a file that only its owner reads. The file comes first and the row after it: whoever is killed
 * in between leaves a key that opens nothing, and the same call again finishes it. Null: the organisation has another
 * key of this name.
 */
export async function keepKeyFile(
  ports: { db: Db; crypto: Crypto },
  path: string,
  order: Omit<KeyOrder, 'id' | 'secret'>,
): Promise<KeptKey | null> {
  const { secret, isNew } = keptSecret(path, ports.crypto)
  const known = await findKey(ports.db, await ports.crypto.sha256(secret))
  if (known !== null) return { key: known, secret, created: false }
  const key = await storeKey(ports.db, ports.crypto, Date.now(), {
    ...order,
    id: newKeyId(ports.crypto),
    secret,
  })
  if (key !== null) return { key, secret, created: true }
  if (isNew) rmSync(path, { force: true })
  return null
}

function keptSecret(path: string, crypto: Crypto): { secret: string; isNew: boolean } {
  const known = existsSync(path) ? readFileSync(path, 'utf8').trim() : null
  if (known !== null && apiKeyPattern.test(known)) return { secret: known, isNew: false }
  if (known) throw new Error(`Cannot keep a key in "${path}": the file holds something else`)
  const secret = newKeySecret(crypto)
  try {
    // A write to a full disk leaves an empty file.
    if (known === '') writePrivateFile(path, `${secret}\n`)
    else linkPrivateFile(path, `${secret}\n`)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new Error(`Cannot write a key to "${path}": ${code}`, { cause: error })
  }
  return { secret, isNew: true }
}
