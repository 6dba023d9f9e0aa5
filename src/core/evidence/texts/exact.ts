// Exact text: what is compared here is compared as it is. Nothing is normalised, trimmed or searched for by pattern.

import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js'
import { sha256 } from '@noble/hashes/sha2.js'
import type { ContentRef, ContentState } from '../../../contract/change.ts'

/** Overlapping ones too: "aa" is twice in "aaa", so nobody can say which was meant. Stops at the second. */
export function exactOccurrences(text: string, part: string): 0 | 1 | 2 {
  if (part === '') return 2
  const first = text.indexOf(part)
  if (first === -1) return 0
  return text.indexOf(part, first + 1) === -1 ? 1 : 2
}

/** Literally: `$&` and `$$` are themselves. Null unless there is exactly one place. */
export function replaceExact(text: string, part: string, by: string): string | null {
  if (exactOccurrences(text, part) !== 1) return null
  const at = text.indexOf(part)
  return text.slice(0, at) + by + text.slice(at + part.length)
}

export interface Digest {
  sha256: string
  sizeBytes: number
}

export function exactDigest(text: string): Digest {
  const bytes = utf8ToBytes(text)
  return { sha256: bytesToHex(sha256(bytes)), sizeBytes: bytes.length }
}

export const exactRef = ({ sha256, sizeBytes }: Digest): ContentRef => ({
  sha256,
  sizeBytes,
  blobRef: `sha256:${sha256}`,
})
export const exactState = ({ sha256, sizeBytes }: Digest): ContentState => ({
  exists: true,
  sha256,
  sizeBytes,
})
export const absentState: ContentState = { exists: false }

// oxlint-disable-next-line no-control-regex -- these are what makes a text binary
const binary = /[\u0000-\u0008\u000e-\u001f]/

/** What git's readers take for binary, and what is not whole as UTF-8. */
export const isPlainText = (text: string): boolean => text.isWellFormed() && !binary.test(text)

/** For what is shown of a name: a control character becomes its number, and a long name its beginning. */
export function escapeExactName(name: string): string {
  const shown = name
    .toWellFormed()
    .replaceAll(/\p{Cc}/gu, (it) => `\\u${it.charCodeAt(0).toString(16).padStart(4, '0')}`)
  return shown.length > 300 ? `${shown.slice(0, 300).toWellFormed()}…` : shown
}

/** Lines between the first and the last that differ: [first line, how many] of each side, counted from 1. */
export function exactChangedLines(before: string, after: string) {
  const [a, b] = [exactLines(before), exactLines(after)]
  const least = Math.min(a.length, b.length)
  let top = 0
  while (top < least && a[top] === b[top]) top += 1
  let end = 0
  while (end < least - top && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1
  return { first: top + 1, removed: a.length - top - end, added: b.length - top - end }
}

/** With their line feeds, so that a missing last one is a difference. */
export function exactLines(text: string): string[] {
  const lines = text.split(/(?<=\n)/)
  return lines.length === 1 && lines[0] === '' ? [] : lines
}
