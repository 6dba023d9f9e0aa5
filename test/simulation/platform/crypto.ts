import { createHash } from 'node:crypto'
import { idAlphabet } from '../../../src/contract/ids.ts'
import type { Crypto } from '../../../src/core/ports.ts'

const hash = (data: string | Uint8Array) => createHash('sha256').update(data).digest('hex')

export type Random = () => number

export const letters = (random: Random, length: number): string =>
  Array.from({ length }, () => idAlphabet[Math.floor(random() * 32)]).join('')

/** Without threads and without chance: the platform's would make two runs of one seed differ. */
export function seededCrypto(random: Random): Crypto {
  return {
    sha256: async (data) => hash(data),
    random: (length) => letters(random, length),
    seal: async (text) => `sealed ${Buffer.from(text).toString('base64')}`,
    unseal: async (sealed) => Buffer.from(sealed.slice(7), 'base64').toString(),
    isCurrent: () => true,
    sign: (text) => hash(`signed ${text}`),
    isSigned: (text, signature) => hash(`signed ${text}`) === signature,
    attest: async () => null,
    publicKeys: async () => [],
  }
}
