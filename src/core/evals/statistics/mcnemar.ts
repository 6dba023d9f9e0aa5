/**
 * The exact McNemar test for pass and fail of the same cases, with mid-p: of the cases that only one side passed, each is
 * as likely the one's as the other's if there is no difference.
 */
export function mcnemar(onlyBaseline: number, onlyCandidate: number): number {
  const count = onlyBaseline + onlyCandidate
  if (onlyBaseline === onlyCandidate) return 1
  const fewer = Math.min(onlyBaseline, onlyCandidate)
  // Two-sided: twice the smaller tail, of whose last term half counts.
  const below = tail(count, fewer)
  return Math.min(1, 2 * (below.sum - below.last / 2))
}

/** Of `count` tosses of a coin at most `heads`. In logarithms, since a half to the power of 1,100 is 0. */
function tail(count: number, heads: number): { sum: number; last: number } {
  let term = -count * Math.LN2
  let sum = Math.exp(term)
  for (let at = 1; at <= heads; at += 1) {
    term += Math.log((count - at + 1) / at)
    sum += Math.exp(term)
  }
  return { sum, last: Math.exp(term) }
}
