import { idAlphabet } from '../../src/contract/ids.ts'

/** The same seed gives the same plan. What the processes make of it is up to the scheduler. */
export interface Random {
  /** From 0, less than 1. */
  next(): number
  chance(probability: number): boolean
  /** From 0, less than `limit`. */
  below(limit: number): number
  pick<T>(items: readonly T[]): T
  id(length: number): string
}

export function createRandom(seed: number): Random {
  let state = seed >>> 0
  // mulberry32
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = Math.imul(state ^ (state >>> 15), state | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (limit: number) => Math.floor(next() * limit)
  return {
    next,
    below,
    chance: (probability) => next() < probability,
    pick: (items) => items[below(items.length)] as (typeof items)[number],
    id: (length) => Array.from({ length }, () => idAlphabet[below(idAlphabet.length)]).join(''),
  }
}
