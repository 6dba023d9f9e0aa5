import { sha256 } from '@noble/hashes/sha2.js'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js'

/** Inside a transaction nothing can be awaited, so this one is synchronous. */
export const hashText = (text: string): string => bytesToHex(sha256(bytesOf(text)))

/** UTF-8. */
export const bytesOf = (text: string): Uint8Array => asciiBytes(text) ?? utf8ToBytes(text)

/** An encoder that is made anew for each text takes as long on Workers as the hash of a short one. null: it needs one. */
function asciiBytes(text: string): Uint8Array | null {
  const bytes = new Uint8Array(text.length)
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at)
    if (code > 0x7f) return null
    bytes[at] = code
  }
  return bytes
}

/** Throws on what is not UTF-8. */
export const textOf = (bytes: Uint8Array): string =>
  decodeURIComponent(bytesToHex(bytes).replaceAll(/../g, '%$&'))
