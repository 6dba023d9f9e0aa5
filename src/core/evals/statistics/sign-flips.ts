/** Beyond so many that differ, intervals hold what they promise, and trying all would take long. */
const maxTried = 14

/**
 * How often as much or more would be lost by chance alone, if no side were better: then every difference is as likely
 * with the other sign. Exact, since all signs are tried; 0 if these are too many.
 */
export function signFlipChance(differences: readonly number[]): number {
  const sizes = differences.filter((value) => value !== 0).map(Math.abs)
  if (sizes.length > maxTried) return 0
  const observed = differences.reduce((sum, value) => sum + value, 0)
  // Sums of halves and thirds must not differ by their last bit.
  const sums = sizes.reduce<number[]>(
    (all, size) => all.flatMap((sum) => [sum - size, sum + size]),
    [0],
  )
  return sums.filter((sum) => sum <= observed + 1e-9).length / sums.length
}

/** Of few cases an interval alone takes more for shown than it promises. */
export const isSignFlipRare = (chance: number, confidence: number): boolean =>
  chance <= 1 - confidence + 1e-9
