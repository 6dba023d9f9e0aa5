import { sha256 } from '@noble/hashes/sha2.js'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js'

/** Inside a transaction nothing can be awaited, so this one is synchronous. */
export const hashText = (text: string): string => bytesToHex(sha256(utf8ToBytes(text)))

/** UTF-8. */
export const bytesOf = (text: string): Uint8Array => utf8ToBytes(text)

/** Throws on what is not UTF-8. */
export const textOf = (bytes: Uint8Array): string =>
  decodeURIComponent(bytesToHex(bytes).replaceAll(/../g, '%$&'))
