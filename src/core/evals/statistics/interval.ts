import type { Interval } from '../../../contract/eval-compare.ts'
import { normalTail, studentQuantile } from './student.ts'

/**
 * How large the mean difference may be, from the differences of the cases. From 30 cases on by a seeded bootstrap over
 * cases, expanded so that it is not too narrow; below 30, where resampling says too little, by Student's t.
 */

const resamples = 10_000
const fewCases = 30
/** With more draws than this there are fewer resamples, at least a tenth: a comparison must not stop everybody else. */
export const maxDraws = 10_000_000

export function confidenceInterval(
  differences: readonly number[],
  { confidence, seed, draws = maxDraws }: { confidence: number; seed: number; draws?: number },
): Interval | null {
  const count = differences.length
  if (count < 2) return null
  const mean = sum(differences) / count
  const freedom = count - 1
  const spread = Math.sqrt(sum(differences.map((value) => (value - mean) ** 2)) / freedom)
  const t = studentQuantile(1 - confidence, freedom)
  if (count >= fewCases) {
    const tail = normalTail(t * Math.sqrt(count / freedom))
    return { ...bootstrap(differences, { tail, seed, draws }), confidence, method: 'bootstrap' }
  }
  const half = (t * spread) / Math.sqrt(count)
  // Scores are from 0 to 1: nothing differs by more.
  return {
    low: Math.max(-1, mean - half),
    high: Math.min(1, mean + half),
    confidence,
    method: 't',
  }
}

const sum = (values: readonly number[]): number => values.reduce((all, value) => all + value, 0)

function bootstrap(
  differences: readonly number[],
  { tail, seed, draws }: { tail: number; seed: number; draws: number },
): { low: number; high: number } {
  const values = Float64Array.from(differences)
  const count = values.length
  const rounds = Math.max(resamples / 10, Math.min(resamples, Math.floor(draws / count)))
  const means = new Float64Array(rounds)
  let state = seed >>> 0
  for (let round = 0; round < rounds; round += 1) {
    let total = 0
    for (let draw = 0; draw < count; draw += 1) {
      // mulberry32, in line: this loop is all the time that a comparison takes.
      state = (state + 0x6d2b79f5) | 0
      let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
      mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
      total += values[Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296) * count)] ?? 0
    }
    means[round] = total / count
  }
  means.sort()
  const at = Math.floor(tail * rounds)
  return { low: means[at] ?? 0, high: means[rounds - 1 - at] ?? 0 }
}
