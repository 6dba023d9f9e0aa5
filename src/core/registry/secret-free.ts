import { AppError, type ErrorDetail } from '../../contract/error.ts'
import { hideSecretLikeText } from '../redaction/secret-like.ts'

/** Refuses what looks like a key of a well-known kind: rows of registries are shown to models and to every reader. */
export function mustBeSecretFree(what: string, fields: Record<string, unknown>): void {
  const details: ErrorDetail[] = Object.entries(fields)
    .filter(([, value]) => value !== undefined && looksSecret(value))
    .map(([path]) => ({
      path,
      message: 'Looks like a secret: name it instead, and store its value at /v1/secrets',
    }))
  if (details.length > 0)
    throw new AppError('unprocessable', `Cannot store ${what}: it holds a secret`, details)
}

/** A key of a well-known kind, as it is or encoded once. */
export function looksSecret(value: unknown): boolean {
  const text = textsIn(value).join('\n|\n')
  const plain = plainLetters(text)
  const readings = [text, plain, unescaped(plain), decodedRuns(plain), decodedBytes(plain)]
  return readings.some((reading) => hideSecretLikeText(reading) !== reading)
}

/** Every text in it, also names of fields. */
function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value]
  if (value === null || typeof value !== 'object') return []
  return Object.entries(value).flatMap(([name, item]) => [name, ...textsIn(item)])
}

/** Without what nobody sees, and in the usual width. */
const plainLetters = (text: string): string =>
  text.normalize('NFKC').replaceAll(/[\p{Cf}\p{Default_Ignorable_Code_Point}]/gu, '')

/** As URLs, pages and texts of programs write characters: %5F, \x5f, \u005f, \u{5f}, \137, &#95;, and "\_" of Markdown. */
const unescaped = (text: string): string =>
  text
    .replaceAll(
      /(?:%|\\x)([\da-fA-F]{2})|\\u([\da-fA-F]{4})|\\u\{([\da-fA-F]{1,6})\}|\\U([\da-fA-F]{8})|&#[xX]([\da-fA-F]{1,6});/g,
      (_, ...groups: (string | undefined)[]) => characterOf(groups.slice(0, 5), 16),
    )
    .replaceAll(/&#([0-9]{1,7});/g, (_, code: string) => characterOf([code], 10))
    .replaceAll(/\\([0-3][0-7]{2})/g, (_, code: string) => characterOf([code], 8))
    .replaceAll(/\\([_\-.*])/g, '$1')

function characterOf(groups: readonly (string | undefined)[], base: number): string {
  const code = Number.parseInt(groups.find((group) => group !== undefined) ?? '', base)
  return code <= 0x10_ff_ff ? String.fromCodePoint(code) : ''
}

/** Base64, also in lines. Where in a run of its letters it begins is not known: one of four places is right. */
const decodedRuns = (text: string): string =>
  (text.includes('\n') ? [text, text.replaceAll(/\s{0,8}\n\s*/g, '')] : [text])
    .flatMap((one) => one.match(/[A-Za-z0-9+/_-]{24,}/g) ?? [])
    .flatMap((run) => [0, 1, 2, 3].map((from) => decodedBase64(run, from)))
    .join('\n')

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
/** By the code of the letter. */
const sixBits = new Uint8Array(128).fill(63)
for (let at = 0; at < alphabet.length; at++) sixBits[alphabet.charCodeAt(at)] = at
sixBits['-'.charCodeAt(0)] = 62

function decodedBase64(run: string, from: number): string {
  let bits = 0
  let held = 0
  let decoded = ''
  for (let at = from; at < run.length; at++) {
    held = ((held << 6) | (sixBits[run.charCodeAt(at)] ?? 63)) & 0xfff
    bits += 6
    if (bits < 8) continue
    bits -= 8
    decoded += character((held >> bits) & 0xff)
  }
  return decoded
}

/** Bytes in hex, one behind the other or apart: 67 68, 0x67, 0x68. */
const decodedBytes = (text: string): string =>
  (text.match(/(?:(?:0x|\\x)?[0-9a-f]{2}[\s,:]{0,2}){16,}[0-9a-f]?/gi) ?? [])
    .map((run) => run.replaceAll(/0x|[^0-9a-f]/gi, ''))
    .flatMap((digits) => [digits, digits.slice(1)])
    .map((digits) =>
      (digits.match(/../g) ?? []).map((two) => character(Number.parseInt(two, 16))).join(''),
    )
    .join('\n')

/** Every second byte of wide letters is 0. */
const character = (byte: number): string => (byte === 0 ? '' : String.fromCharCode(byte))
