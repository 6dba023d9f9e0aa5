/**
 * Of n repetitions c passed: how likely k of them, drawn at random, hold one that passes, or hold only such. For k from 1
 * to `most`, each from the one before it.
 */

export const passAtK = (n: number, c: number, most: number): number[] =>
  shares(n - c, n, most).map((share) => 1 - share)

export const passPowK = (n: number, c: number, most: number): number[] => shares(c, n, most)

/** Of all ways to draw k of `all`, those that draw only from `some`. */
function shares(some: number, all: number, most: number): number[] {
  let product = 1
  return Array.from({ length: most }, (_, at) => (product *= Math.max(0, some - at) / (all - at)))
}
