/** Student's t distribution: how far off a mean of few values may be. */

/** The chance that |T| is larger than `t`. */
export function studentTail(t: number, freedom: number): number {
  return incompleteBeta(freedom / (freedom + t * t), freedom / 2, 0.5)
}

/** How far from 0 both tails begin that have the chance `tails` together. */
export function studentQuantile(tails: number, freedom: number): number {
  let [low, high] = [0, 1]
  while (studentTail(high, freedom) > tails && high < 1e9) high *= 2
  for (let round = 0; round < 100; round += 1) {
    const middle = (low + high) / 2
    if (studentTail(middle, freedom) > tails) low = middle
    else high = middle
  }
  return (low + high) / 2
}

/** The chance that a normal value is beyond `z` on one side. */
export const normalTail = (z: number): number => studentTail(z, 1e8) / 2

/** Regularised; by its continued fraction (Lentz). */
function incompleteBeta(x: number, a: number, b: number): number {
  if (x <= 0) return 0
  if (x >= 1) return 1
  if (x > (a + 1) / (a + b + 2)) return 1 - incompleteBeta(1 - x, b, a)
  const front =
    Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log1p(-x)) / a
  let [c, d] = [1, 1 / nonZero(1 - ((a + b) * x) / (a + 1))]
  let fraction = d
  for (let m = 1; m <= 500; m += 1) {
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m))
    const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1))
    for (const step of [even, odd]) {
      d = 1 / nonZero(1 + step * d)
      c = nonZero(1 + step / c)
      fraction *= c * d
    }
    if (Math.abs(c * d - 1) < 1e-15) break
  }
  return front * fraction
}

const nonZero = (value: number): number => (Math.abs(value) < 1e-300 ? 1e-300 : value)

const lanczos = [
  0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313,
  -176.61502916214059, 12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6,
  1.5056327351493116e-7,
] as const

function logGamma(x: number): number {
  const z = x - 1
  const sum = lanczos.reduce((all, value, at) => (at === 0 ? value : all + value / (z + at)), 0)
  const t = z + 7.5
  return 0.5 * Math.log(2 * Math.PI) + (z + 0.5) * Math.log(t) - t + Math.log(sum)
}
