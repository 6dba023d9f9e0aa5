import type { SecretKey } from '../../src/adapters/secret-key.ts'

export function secretKey(id: string): SecretKey {
  return { id, secret: crypto.getRandomValues(new Uint8Array(32)) }
}
