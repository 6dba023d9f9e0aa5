// Exact text: what is compared here is compared as it is. Nothing is normalised, trimmed or searched for by pattern.

import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js'
import { sha256 } from '@noble/hashes/sha2.js'
import type { ContentRef, ContentState } from '../../../contract/change.ts'

/** Overlapping ones too: "aa" is twice in "aaa", so nobody can say which was meant. Stops at the second. */
export function exactOccurrences(text: string, part: string): 0 | 1 | 2 {
  if (part === '') return 2
  const { length } = exactPlaces(text, part)
  return length === 0 ? 0 : length === 1 ? 1 : 2
}

/** Literally: `$&` and `$$` are themselves. Null unless there is exactly one place. */
export function replaceExact(text: string, part: string, by: string): string | null {
  if (part === '') return null
  const [at, second] = exactPlaces(text, part)
  if (at === undefined || second !== undefined) return null
  return text.slice(0, at) + by + text.slice(at + part.length)
}

/** A longer one could be made so that `indexOf` compares all of it at each place of the text. */
const shortPart = 64

/** The first place and the second one, if there are. */
function exactPlaces(text: string, part: string): number[] {
  if (part.length > shortPart) return longPlaces(text, part)
  const first = text.indexOf(part)
  if (first === -1) return []
  const second = text.indexOf(part, first + 1)
  return second === -1 ? [first] : [first, second]
}

/** Knuth, Morris and Pratt: no sign of the text is looked at more often than twice, whatever both are. */
function longPlaces(text: string, part: string): number[] {
  if (part.length > text.length) return []
  const borders = bordersOf(part)
  const places: number[] = []
  let matched = 0
  for (let at = 0; at < text.length && places.length < 2; at += 1) {
    matched = extend(part, borders, matched, text.charCodeAt(at))
    if (matched === part.length) places.push(at + 1 - part.length)
  }
  return places
}

/** Of how many signs from the beginning those up to each are an end, too. */
function bordersOf(part: string): Int32Array {
  const borders = new Int32Array(part.length)
  for (let at = 1; at < part.length; at += 1)
    borders[at] = extend(part, borders, borders[at - 1] ?? 0, part.charCodeAt(at))
  return borders
}

function extend(part: string, borders: Int32Array, matched: number, sign: number): number {
  let length = matched
  // Past its end no sign is the same.
  while (length > 0 && part.charCodeAt(length) !== sign) length = borders[length - 1] ?? 0
  return part.charCodeAt(length) === sign ? length + 1 : 0
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
