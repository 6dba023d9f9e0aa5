import { AppError, type ErrorDetail } from '../../contract/error.ts'
import { hideSecretLikeText } from '../redaction/secret-like.ts'

/** Refuses what looks like a key of a well-known kind: rows of registries are shown to models and to every reader. */
export function mustBeSecretFree(what: string, fields: Record<string, unknown>): void {
  const details: ErrorDetail[] = Object.entries(fields)
    .filter(([, value]) => value !== undefined && looksSecret(textOf(value)))
    .map(([path]) => ({
      path,
      message: 'Looks like a secret: name it instead, and store its value at /v1/secrets',
    }))
  if (details.length > 0)
    throw new AppError('unprocessable', `Cannot store ${what}: it holds a secret`, details)
}

const textOf = (value: unknown): string =>
  typeof value === 'string' ? value : JSON.stringify(value)

/** A key of a well-known kind, as it is or encoded once. */
export const looksSecret = (text: string): boolean =>
  [text, plainLetters(text), unescaped(text), decodedRuns(text)].some(
    (reading) => hideSecretLikeText(reading) !== reading,
  )

/** Without what nobody sees, and in the usual width. */
const plainLetters = (text: string): string => text.normalize('NFKC').replaceAll(/\p{Cf}/gu, '')

/** As URLs and texts of programs write characters: %5F, \x5f, \u005f. */
const unescaped = (text: string): string =>
  text.replaceAll(
    /(?:%|\\x)([0-9a-fA-F]{2})|\\u([0-9a-fA-F]{4})/g,
    (_, two: string | undefined, four: string | undefined) =>
      String.fromCharCode(Number.parseInt(two ?? four ?? '', 16)),
  )

const decodedRuns = (text: string): string =>
  (text.match(/[A-Za-z0-9+/_-]{24,}/g) ?? []).map(decodedBase64).join('\n')

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'

function decodedBase64(run: string): string {
  let bits = 0
  let held = 0
  let decoded = ''
  for (const letter of run) {
    held =
      ((held << 6) | alphabet.indexOf(letter === '-' ? '+' : letter === '_' ? '/' : letter)) & 0xfff
    bits += 6
    if (bits < 8) continue
    bits -= 8
    decoded += String.fromCharCode((held >> bits) & 0xff)
  }
  return decoded
}
