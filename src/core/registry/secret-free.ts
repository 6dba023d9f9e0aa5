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
function decodedRuns(text: string): string {
  const letters = new Letters()
  for (const one of text.includes('\n') ? [text, text.replaceAll(/\s{0,8}\n\s*/g, '')] : [text])
    for (const run of one.match(/[A-Za-z0-9+/_-]{24,}/g) ?? [])
      for (const from of [0, 1, 2, 3]) addBase64(letters, run, from)
  return letters.text()
}

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
/** By the code of the letter. */
const sixBits = new Uint8Array(128).fill(63)
for (let at = 0; at < alphabet.length; at++) sixBits[alphabet.charCodeAt(at)] = at
sixBits['-'.charCodeAt(0)] = 62

function addBase64(letters: Letters, run: string, from: number): void {
  let bits = 0
  let held = 0
  for (let at = from; at < run.length; at++) {
    held = ((held << 6) | (sixBits[run.charCodeAt(at)] ?? 63)) & 0xfff
    bits += 6
    if (bits < 8) continue
    bits -= 8
    letters.add((held >> bits) & 0xff)
  }
  letters.add(lineEnd)
}

/** Bytes in hex, one behind the other or apart: 67 68, 0x67, 0x68. Where they begin is not known, either. */
function decodedBytes(text: string): string {
  const letters = new Letters()
  for (const run of text.match(/(?:(?:0x|\\x)?[0-9a-f]{2}[\s,:]{0,2}){16,}[0-9a-f]?/gi) ?? []) {
    const digits = run.replaceAll(/0x|[^0-9a-f]/gi, '')
    for (const from of [0, 1]) addHex(letters, digits, from)
  }
  return letters.text()
}

function addHex(letters: Letters, digits: string, from: number): void {
  for (let at = from; at + 1 < digits.length; at += 2)
    letters.add((fourBits(digits.charCodeAt(at)) << 4) | fourBits(digits.charCodeAt(at + 1)))
  letters.add(lineEnd)
}

/** Of a digit in hex: the codes of a to f end with 1 to 6. */
const fourBits = (code: number): number => (code & 0xf) + (code > 0x39 ? 9 : 0)

const lineEnd = 0x0a

/** A text of letters of one byte each, made from many at once: one that grows by single letters costs many times as much. */
class Letters {
  readonly #bytes = new Uint8Array(8192)
  readonly #pieces: string[] = []
  #count = 0

  /** Every second byte of wide letters is 0. */
  add(byte: number): void {
    if (byte === 0) return
    if (this.#count === this.#bytes.length) this.#flush()
    this.#bytes[this.#count++] = byte
  }

  text(): string {
    this.#flush()
    return this.#pieces.join('')
  }

  #flush(): void {
    const bytes = this.#bytes.subarray(0, this.#count)
    this.#pieces.push(Reflect.apply(String.fromCharCode, null, bytes))
    this.#count = 0
  }
}
