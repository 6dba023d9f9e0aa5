import { hmac } from '@noble/hashes/hmac.js'
import { sha256 as sha2 } from '@noble/hashes/sha2.js'
import { bytesToHex } from '@noble/hashes/utils.js'
import { idAlphabet, sessionIdRandomLength } from '../contract/ids.ts'
import type { Crypto as CryptoPort } from '../core/ports.ts'
import { createAttestationKeys } from './attestation-keys.ts'
import { bytesFromBase64, bytesToBase64 } from './base64.ts'
import {
  firstSecretKey,
  type ImportedKey,
  importSecretKeyOnce,
  type SecretKey,
} from './secret-key.ts'

const encoder = new TextEncoder()
const decoder = new TextDecoder()
const ivBytes = 12

export function createWebCrypto(
  sealKeys: readonly SecretKey[],
  exportKeys: readonly SecretKey[] = [],
): CryptoPort {
  const sealKey = importSecretKeyOnce(sealKeys, (secret) =>
    crypto.subtle.importKey('raw', secret, 'AES-GCM', false, ['encrypt', 'decrypt']),
  )
  const cipher = async (id: string, iv: Uint8Array<ArrayBuffer>) => {
    const key = await sealKey(id)
    if (!key) throw new Error(`Cannot open a sealed text: no seal key "${id}"`)
    // The key's id is authenticated too, so that it cannot be exchanged for another one.
    return { key, algorithm: { name: 'AES-GCM', iv, additionalData: encoder.encode(`v1.${id}`) } }
  }
  return {
    ...createAttestationKeys(exportKeys),
    sha256: cryptoSha256,
    random: cryptoCharacters,
    async seal(text) {
      const { id } = firstSecretKey(sealKeys)
      const iv = crypto.getRandomValues(new Uint8Array(ivBytes))
      const { key, algorithm } = await cipher(id, iv)
      const sealed = await crypto.subtle.encrypt(algorithm, key, encoder.encode(text))
      return `v1.${id}.${bytesToBase64(concat(iv, new Uint8Array(sealed)))}`
    },
    async unseal(sealed) {
      const [, id, body] = /^v1\.([A-Za-z0-9_-]+)\.([A-Za-z0-9+/=]+)$/.exec(sealed) ?? []
      if (id === undefined || body === undefined)
        throw new Error('Cannot open a sealed text: unknown form')
      const bytes = bytesFromBase64(body)
      const { key, algorithm } = await cipher(id, bytes.slice(0, ivBytes))
      return decoder.decode(await crypto.subtle.decrypt(algorithm, key, bytes.slice(ivBytes)))
    },
    isCurrent: (sealed) => sealed.startsWith(`v1.${firstSecretKey(sealKeys).id}.`),
    sign: (text) => signWith(firstSecretKey(sealKeys), text),
    isSigned(text, signature) {
      const key = sealKeys.find(({ id }) => signature.startsWith(`v1.${id}.`))
      return key !== undefined && isEqual(signWith(key, text), signature)
    },
  }
}

/** Synchronous, so that it fits into a transaction. Its own purpose in the text keeps it apart from what the key seals. */
function signWith({ id, secret }: SecretKey, text: string): string {
  return `v1.${id}.${bytesToHex(hmac(sha2, secret, encoder.encode(`gantry-sign\n${text}`)))}`
}

/** In a time that does not tell where they differ. */
function isEqual(one: string, other: string): boolean {
  let difference = one.length ^ other.length
  for (let i = 0; i < one.length; i += 1) difference |= one.charCodeAt(i) ^ other.charCodeAt(i)
  return difference === 0
}

export async function cryptoSha256(data: string | Uint8Array): Promise<string> {
  const bytes = typeof data === 'string' ? encoder.encode(data) : (data as Uint8Array<ArrayBuffer>)
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** The alphabet has 32 letters, so five bits of a byte choose one without bias. */
export function cryptoCharacters(length: number): string {
  return letters(crypto.getRandomValues(new Uint8Array(length)))
}

export interface SessionIds {
  mint(): Promise<string>
  /** False for an id that this deployment has not made, whatever its form. */
  check(id: string): Promise<boolean>
}

export function createCryptoSessionIds(secret: Uint8Array<ArrayBuffer>): SessionIds {
  const macKey = importSecretKeyOnce([{ id: 'id', secret }], (raw) =>
    crypto.subtle.importKey('raw', raw, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']),
  )
  const mac = async (random: string): Promise<string> => {
    const key = (await macKey('id')) as ImportedKey
    const digest = await crypto.subtle.sign('HMAC', key, encoder.encode(`ses_${random}`))
    return letters(new Uint8Array(digest, 0, 10))
  }
  return {
    async mint() {
      const random = cryptoCharacters(sessionIdRandomLength)
      return `ses_${random}${await mac(random)}`
    },
    async check(id) {
      if (!sessionIdForm.test(id)) return false
      const random = id.slice(4, 4 + sessionIdRandomLength)
      return equalInConstantTime(await mac(random), id.slice(4 + sessionIdRandomLength))
    },
  }
}

const sessionIdForm = new RegExp(`^ses_[${idAlphabet}]{30}$`)

function letters(bytes: Uint8Array): string {
  let text = ''
  for (const byte of bytes) text += idAlphabet.charAt(byte & 31)
  return text
}

function equalInConstantTime(a: string, b: string): boolean {
  if (a.length !== b.length) return false
  let difference = 0
  for (let i = 0; i < a.length; i++) difference |= a.charCodeAt(i) ^ b.charCodeAt(i)
  return difference === 0
}

function concat(a: Uint8Array, b: Uint8Array): Uint8Array {
  const both = new Uint8Array(a.length + b.length)
  both.set(a)
  both.set(b, a.length)
  return both
}
