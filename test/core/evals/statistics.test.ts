import { describe, expect, test } from 'vitest'
import { confidenceInterval } from '../../../src/core/evals/statistics/interval.ts'
import { mcnemar } from '../../../src/core/evals/statistics/mcnemar.ts'
import { passAtK, passPowK } from '../../../src/core/evals/statistics/repetitions.ts'
import {
  normalTail,
  studentQuantile,
  studentTail,
} from '../../../src/core/evals/statistics/student.ts'
import { random } from '../../support/random.ts'

describe('[EVAL32] the exact McNemar test with mid-p', () => {
  // Worked out by hand: twice the sum of C(n, i) / 2^n below the smaller count, and once its own term.
  test.each([
    [0, 0, 1],
    [1, 1, 1],
    [7, 7, 1],
    [0, 1, 0.5],
    [1, 0, 0.5],
    [0, 3, 1 / 8],
    [0, 5, 1 / 32],
    [1, 5, 2 / 64 + 6 / 64],
    [2, 5, (2 * (1 + 7) + 21) / 128],
    [5, 2, (2 * (1 + 7) + 21) / 128],
    [2, 10, (2 * (1 + 12) + 66) / 4096],
    [1, 9, (2 + 10) / 1024],
  ])('%d and %d: %d', (one, other, p) => expect(mcnemar(one, other)).toBeCloseTo(p, 12))

  test('of thousands is still a number', () => {
    expect(mcnemar(900, 1100)).toBeGreaterThan(1e-6)
    expect(mcnemar(900, 1100)).toBeLessThan(1e-4)
    expect(mcnemar(4990, 5010)).toBeGreaterThan(0.8)
    expect(mcnemar(0, 5000)).toBe(0)
  })
})

describe('[EVAL33] Student’s t', () => {
  test.each([
    [0.05, 1, 12.7062],
    [0.05, 2, 4.302653],
    [0.05, 9, 2.262157],
    [0.05, 28, 2.048407],
    [0.01, 5, 4.032143],
    [0.5, 1, 1],
  ])('tails of %d with %d degrees of freedom begin at %d', (tails, freedom, t) => {
    expect(studentQuantile(tails, freedom)).toBeCloseTo(t, 4)
    expect(studentTail(t, freedom)).toBeCloseTo(tails, 5)
  })

  test('of many is normal', () => {
    expect(normalTail(1.959964)).toBeCloseTo(0.025, 6)
    expect(normalTail(0)).toBeCloseTo(0.5, 9)
  })
})

describe('[EVAL33] the interval of a mean difference', () => {
  const at = { confidence: 0.95, seed: 1 }

  test('below 30 cases is by t: worked out by hand', () => {
    // Mean 0.2, deviations 0.8, -0.2, -0.2, -0.2, -0.2: variance 0.2, standard error 0.2, t(4) 2.776445.
    const interval = confidenceInterval([1, 0, 0, 0, 0], at)
    expect(interval).toMatchObject({ method: 't', confidence: 0.95 })
    expect(interval?.low).toBeCloseTo(0.2 - 2.776445 * 0.2, 5)
    expect(interval?.high).toBeCloseTo(0.2 + 2.776445 * 0.2, 5)
  })

  test('from 30 cases on is by a bootstrap, near to what t says, and repeatable by its seed', () => {
    const next = random(7)
    const differences = Array.from({ length: 200 }, () => next() - 0.4)
    const interval = confidenceInterval(differences, at)
    expect(interval?.method).toBe('bootstrap')
    expect(confidenceInterval(differences, at)).toEqual(interval)
    expect(confidenceInterval(differences, { ...at, seed: 2 })).not.toEqual(interval)
    const mean = differences.reduce((sum, value) => sum + value, 0) / 200
    const spread = Math.sqrt(differences.reduce((sum, value) => sum + (value - mean) ** 2, 0) / 199)
    const half = (1.972 * spread) / Math.sqrt(200)
    expect(Math.abs((interval?.low ?? 0) - (mean - half))).toBeLessThan(half / 10)
    expect(Math.abs((interval?.high ?? 0) - (mean + half))).toBeLessThan(half / 10)
    const narrow = confidenceInterval(differences, { ...at, confidence: 0.8 })
    expect(narrow?.low).toBeGreaterThan(interval?.low ?? 0)
  })

  test('of equal differences is a point, and of one case there is none', () => {
    expect(confidenceInterval(Array(40).fill(0), at)).toMatchObject({ low: 0, high: 0 })
    expect(confidenceInterval(Array(10).fill(0.5), at)).toMatchObject({ low: 0.5, high: 0.5 })
    expect(confidenceInterval([-1, 0], at)).toMatchObject({ low: -1, high: 1 })
    expect(confidenceInterval([1], at)).toBeNull()
    expect(confidenceInterval([], at)).toBeNull()
  })

  test.each([10, 20, 29, 30, 40])(
    'with %d cases holds the truth about as often as it says',
    (count) => {
      const trials = count < 30 ? 2000 : 150
      const next = random(count)
      let held = 0
      for (let trial = 0; trial < trials; trial += 1) {
        const differences = Array.from({ length: count }, () => next() + next() + next() - 1.5)
        const interval = confidenceInterval(differences, {
          confidence: 0.95,
          seed: trial,
          draws: 2000 * count,
        })
        if (interval && interval.low <= 0 && interval.high >= 0) held += 1
      }
      expect(held / trials).toBeGreaterThan(count < 30 ? 0.935 : 0.9)
      expect(held / trials).toBeLessThan(count < 30 ? 0.965 : 0.995)
    },
  )
})

describe('[EVAL34] pass@k and pass^k', () => {
  test.each([
    // Of 5 repetitions 2 passed; of the 10 pairs 3 have none that passed, and 1 has both.
    [5, 2, 1, 0.4, 0.4],
    [5, 2, 2, 0.7, 0.1],
    [5, 2, 3, 0.9, 0],
    [5, 2, 5, 1, 0],
    [3, 0, 2, 0, 0],
    [3, 3, 3, 1, 1],
    [1, 1, 1, 1, 1],
  ])('of %d with %d passed, k = %d: %d and %d', (n, c, k, one, all) => {
    expect(passAtK(n, c, k)).toHaveLength(k)
    expect(passAtK(n, c, k).at(-1)).toBeCloseTo(one, 12)
    expect(passPowK(n, c, k).at(-1)).toBeCloseTo(all, 12)
  })
})
