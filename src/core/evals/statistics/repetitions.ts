/** Of n repetitions c passed: how likely k of them, drawn at random, hold one that passes, or hold only such. */

export const passAtK = (n: number, c: number, k: number): number => 1 - share(n - c, n, k)

export const passPowK = (n: number, c: number, k: number): number => share(c, n, k)

/** Of all ways to draw k of `all`, those that draw only from `some`. */
function share(some: number, all: number, k: number): number {
  let product = 1
  for (let at = 0; at < k; at += 1) product *= Math.max(0, some - at) / (all - at)
  return product
}
