import { isLong } from './long.ts'

/** Seeded (mulberry32), so that a failure can be repeated. From 0 up to 1. */
export function random(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/**
 * For tests that try the same with several seeds: some in `npm test`, others with each commit, and all from 1 in the long
 * run. The runner prints what they begin with.
 */
export function seedsOf(some: number, all: number): number[] {
  const first = isLong ? 1 : 1 + ((Number(process.env['GANTRY_SEED'] ?? 0) * some) % 1_000_000)
  return Array.from({ length: isLong ? all : some }, (_, index) => first + index)
}
