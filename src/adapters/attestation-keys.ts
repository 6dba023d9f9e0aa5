import type { PublicKey } from '../contract/export.ts'
import { type Envelope, payloadType } from '../contract/export.ts'
import { bytesFromBase64, bytesToBase64 } from './base64.ts'
import { type ImportedKey, importSecretKeyOnce, type SecretKey } from './secret-key.ts'

const encoder = new TextEncoder()

/** An Ed25519 key as PKCS #8 is this, and its 32 bytes. */
const pkcs8 = bytesFromBase64('MC4CAQAwBQYDK2VwBCIEIA==')

export interface AttestationKeys {
  /** By the first key. Null: there is none. */
  attest(statement: string): Promise<Envelope | null>
  publicKeys(): Promise<PublicKey[]>
}

/** Ed25519. The first key signs; all are published, so that what an older one has signed can still be checked. */
export function createAttestationKeys(keys: readonly SecretKey[]): AttestationKeys {
  const signingKey = importSecretKeyOnce(keys, (secret) =>
    crypto.subtle.importKey('pkcs8', joined(pkcs8, secret), 'Ed25519', true, ['sign']),
  )
  const publicKey = async ({ id }: SecretKey): Promise<PublicKey> => {
    const key = (await signingKey(id)) as ImportedKey
    const { x = '' } = (await crypto.subtle.exportKey('jwk', key)) as { x?: string }
    const named = { crv: 'Ed25519', kty: 'OKP', x } as const
    return { ...named, kid: await attestationThumbprint(named), use: 'sig', alg: 'EdDSA' }
  }
  return {
    async attest(statement) {
      const [first] = keys
      if (!first) return null
      const payload = encoder.encode(statement)
      const key = (await signingKey(first.id)) as ImportedKey
      const { kid } = await publicKey(first)
      const sig = await crypto.subtle.sign('Ed25519', key, attestationBytes(payload))
      const signatures = [{ keyid: kid, sig: bytesToBase64(new Uint8Array(sig)) }]
      return { payloadType, payload: bytesToBase64(payload), signatures }
    },
    publicKeys: () => Promise.all(keys.map(publicKey)),
  }
}

/** What DSSE signs: type and payload with their lengths, so that neither can be taken for the other. */
export function attestationBytes(payload: Uint8Array): Uint8Array<ArrayBuffer> {
  const head = `DSSEv1 ${encoder.encode(payloadType).length} ${payloadType} ${payload.length} `
  return joined(encoder.encode(head), payload)
}

/** RFC 7638: the required members, in order, without spaces. */
export async function attestationThumbprint({ crv, kty, x }: Pick<PublicKey, 'crv' | 'kty' | 'x'>) {
  const bytes = encoder.encode(JSON.stringify({ crv, kty, x }))
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))
  return bytesToBase64(digest).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
}

function joined(a: Uint8Array, b: Uint8Array): Uint8Array<ArrayBuffer> {
  const both = new Uint8Array(a.length + b.length)
  both.set(a)
  both.set(b, a.length)
  return both
}
