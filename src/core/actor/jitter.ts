import { idAlphabet } from '../../contract/ids.ts'
import type { Crypto } from '../ports.ts'

/** At least 0, less than 1. Each letter adds five bits. */
export function jitterFraction(crypto: Pick<Crypto, 'random'>, letters = 2): number {
  const size = idAlphabet.length
  const digits = crypto
    .random(letters)
    .split('')
    .map((letter) => idAlphabet.indexOf(letter))
  return digits.reduceRight((sum, digit) => (sum + digit) / size, 0)
}

/** 1 s, 2 s, 4 s … at most 30 s. */
export function jitteredBackoffMs(attempt: number): number {
  return Math.min(30_000, 1000 * 2 ** Math.min(attempt, 5))
}

/** As long, and up to half as much again: those who failed together do not come back together. */
export function jitteredRetryMs(attempt: number, crypto: Pick<Crypto, 'random'>): number {
  const ms = jitteredBackoffMs(attempt)
  return ms + Math.floor((ms / 2) * jitterFraction(crypto))
}
