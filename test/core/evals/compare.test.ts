import { describe, expect, test } from 'vitest'
import { type Comparison, GateRule } from '../../../src/contract/eval-compare.ts'
import { compareSides } from '../../../src/core/evals/compare/compare.ts'
import { decidePromotion } from '../../../src/core/evals/compare/promotion.ts'
import { summarise, summaryOfSide } from '../../../src/core/evals/compare/sides.ts'
import { random } from '../../support/random.ts'
import { rowOf, sideOf } from './rows.ts'

type Compared = Extract<Comparison, { comparable: true }>
const compare = (...given: Parameters<typeof compareSides>): Compared => {
  const comparison = compareSides(...given)
  if (!comparison.comparable) throw new Error(comparison.reason)
  return comparison
}
const times = (count: number, score: number) => Array<number>(count).fill(score)

describe('[EVAL35] what is compared', () => {
  test('different suites are not', () => {
    const candidate = sideOf('b', [1], { suiteDigest: 'other' })
    expect(compareSides(sideOf('a', [1]), candidate)).toEqual({
      comparable: false,
      reason: 'The two runs are of different suites: their digests are not the same',
    })
    const none = sideOf('b', [], { cases: [{ id: 'x', repetitions: 1, required: false }] })
    expect(compareSides(sideOf('a', [1]), none)).toMatchObject({ comparable: false })
  })

  test('cases that only one of them ran are named, and are in no number', () => {
    const easy = compare(sideOf('a', [...times(5, 1), ...times(5, 0)]), sideOf('b', times(5, 1)))
    expect(easy).toMatchObject({ baseline: { cases: 5, score: 1 }, score: { ties: 5 } })
    expect([easy.onlyBaseline, easy.onlyCandidate]).toEqual([['c5', 'c6', 'c7', 'c8', 'c9'], []])
    const back = compare(sideOf('b', times(5, 1)), sideOf('a', times(6, 1)))
    expect([back.onlyBaseline, back.onlyCandidate]).toEqual([[], ['c5']])
  })

  test('what is missing or has an error counts as failed', () => {
    const baseline = sideOf('a', times(5, 1))
    const candidate = {
      ...sideOf('b', times(5, 1)),
      rows: [
        rowOf('c0', 1),
        rowOf('c1', 1),
        // A score beside an error does not count.
        rowOf('c2', 1, { error: 'timed out' }),
        rowOf('c3', 1, { target: 'another' }),
        rowOf('unknown', 1),
        rowOf('c0', 0, { attempt: 1 }),
        rowOf('c1', 0),
      ],
    }
    const { candidate: side, passes, score } = compare(baseline, candidate)
    expect(side).toMatchObject({ cases: 5, score: 0.4, passed: 2, errors: 1, missing: 2 })
    expect(passes).toMatchObject({ bothPassed: 2, onlyBaseline: 3, onlyCandidate: 0 })
    expect(score).toMatchObject({
      baseline: 1,
      candidate: 0.4,
      difference: -0.6,
      losses: 3,
      ties: 2,
    })
  })

  test('repetitions make one case: the mean score, passed if more than half passed', () => {
    const repeated = (scores: number[]) =>
      sideOf('a', [], {
        cases: [{ id: 'c', repetitions: 4, required: false }],
        rows: scores.map((score, attempt) => rowOf('c', score, { attempt })),
      })
    expect(summarise(repeated([1, 1, 1, 0]))).toMatchObject({ score: 0.75, passed: 1 })
    expect(summarise(repeated([1, 1, 0, 0])).passed).toBe(0)
    expect(summarise(repeated([1, 1, 1]))).toMatchObject({ score: 0.75, missing: 1 })
    const { passAtK, passPowK } = summarise(repeated([1, 1, 0, 0]))
    expect(passAtK.map((share) => Math.round(share * 1000) / 1000)).toEqual([0.5, 0.833, 1, 1])
    expect(passPowK.map((share) => Math.round(share * 1000) / 1000)).toEqual([0.5, 0.167, 0, 0])
  })
})

test('[EVAL34] each case is looked at a few times, however often it was repeated', () => {
  let reads = 0
  const trial = {
    ...{ id: 'c', repetitions: 100, score: 1, errors: 0, missing: 0, worst: null },
    evaluators: new Map<string, number>(),
    get passes() {
      reads += 1
      return 50
    },
  }
  const { passAtK, passPowK } = summaryOfSide(sideOf('a', []), [trial])
  expect([passAtK.length, passPowK.length, passAtK[0], passPowK[49]! > 0, passPowK[50]]).toEqual([
    ...[100, 100, 0.5, true, 0],
  ])
  expect(reads).toBeLessThan(5)
})

describe('[EVAL36] what is said', () => {
  test('of equal runs: no difference shown', () => {
    const { score, passes, evaluators } = compare(
      sideOf('a', times(40, 0.9)),
      sideOf('b', times(40, 0.9)),
    )
    expect(score).toMatchObject({ verdict: 'no_difference_shown', ties: 40, difference: 0 })
    expect(passes).toMatchObject({ verdict: 'no_difference_shown', pValue: 1 })
    expect(evaluators).toMatchObject([
      { name: 'contains', cases: 40, verdict: 'no_difference_shown' },
    ])
  })

  test('of a few losses among many: no difference shown', () => {
    const { score, passes } = compare(
      sideOf('a', times(40, 1)),
      sideOf('b', [...times(38, 1), 0, 0]),
    )
    expect([score.verdict, passes.verdict]).toEqual(['no_difference_shown', 'no_difference_shown'])
    expect(passes.pValue).toBeCloseTo(0.25, 12)
  })

  test('of many losses: worse; the other way round: better', () => {
    const [good, bad] = [sideOf('a', times(40, 1)), sideOf('b', [...times(30, 1), ...times(10, 0)])]
    expect(compare(good, bad)).toMatchObject({
      score: { verdict: 'worse', difference: -0.25, losses: 10, wins: 0 },
      passes: { verdict: 'worse', onlyBaseline: 10 },
      evaluators: [{ verdict: 'worse' }],
    })
    expect(compare(bad, good)).toMatchObject({
      score: { verdict: 'better', difference: 0.25, wins: 10 },
      passes: { verdict: 'better' },
    })
  })

  test('of too few cases: inconclusive, whatever they are', () => {
    const comparison = compare(sideOf('a', times(4, 1)), sideOf('b', times(4, 0)))
    expect(comparison.score.verdict).toBe('inconclusive')
    expect(comparison.passes.verdict).toBe('inconclusive')
    expect(compare(sideOf('a', [1]), sideOf('b', [0])).score.interval).toBeNull()
  })

  test('an evaluator is compared over the cases that have it', () => {
    const candidate = sideOf('b', times(6, 1))
    const other = { ...rowOf('x', 0).evaluator_results[0], name: 'extra' }
    candidate.rows[0]?.evaluator_results.push(other as never)
    const { evaluators } = compare(sideOf('a', times(6, 1)), candidate)
    expect(evaluators).toMatchObject([
      { name: 'contains', cases: 6 },
      { name: 'extra', cases: 1, verdict: 'inconclusive', baseline: 0, difference: 0 },
    ])
  })
})

test('[EVAL37] regressions come first, required and worst on top, with both transcripts', () => {
  const baseline = sideOf('a', [1, 1, 0.5, 1, 0, 0.9, 0.7])
  const candidate = sideOf('b', [1, 0.4, 0.4, 0, 1, 0.7, 0.9])
  candidate.cases[5] = { id: 'c5', repetitions: 1, required: true }
  const { cases } = compare(baseline, candidate)
  expect(cases.map(({ evalId, change }) => `${evalId} ${change}`)).toEqual([
    'c5 regression',
    'c3 regression',
    'c1 regression',
    'c2 regression',
    'c6 improvement',
    'c4 improvement',
    'c0 same',
  ])
  expect(cases[1]).toEqual({
    evalId: 'c3',
    required: false,
    change: 'regression',
    difference: -1,
    baseline: { score: 1, passed: true, error: null, transcript: '/v1/sessions/a-c3/events' },
    candidate: { score: 0, passed: false, error: null, transcript: '/v1/sessions/b-c3/events' },
    misses: ['Something is missing'],
  })
})

describe('[EVAL38] under no difference', () => {
  /** Every case is won or lost by a whole point, each as likely: how often that is blocked, exactly. */
  const blocked = (count: number, confidence: number) => {
    let [ways, all] = [1, 0]
    for (let lost = 0; lost <= count; lost += 1) {
      const differ = (won: number) => times(count, 0).map((_, at) => (at < lost ? 1 - won : won))
      const gate = decidePromotion(
        GateRule.parse({ minCases: 5, interval: { confidence } }),
        sideOf('b', differ(1)),
        sideOf('a', differ(0)),
      )
      if (gate.outcome === 'fail') all += ways / 2 ** count
      ways = (ways * (count - lost)) / (lost + 1)
    }
    return all
  }

  test.each([5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 20, 29])(
    'of %d cases no more is blocked than the confidence leaves',
    (count) => {
      expect(blocked(count, 0.95)).toBeLessThanOrEqual(0.05)
      expect(blocked(count, 0.95)).toBeGreaterThan(0)
    },
  )

  test('[EVAL36] comparison and gate agree: four of twelve may be chance, five of twelve are not', () => {
    for (const [lost, verdict, outcome] of [
      [4, 'no_difference_shown', 'pass'],
      [5, 'worse', 'fail'],
    ] as const) {
      const [before, after] = [times(12, 1), [...times(lost, 0), ...times(12 - lost, 1)]]
      const [a, b] = [sideOf('a', before), sideOf('b', after)]
      const gate = decidePromotion(GateRule.parse({}), b, a)
      expect([
        gate.outcome,
        gate.reasons[0]?.endsWith('chance alone loses as much in 6.3 %'),
      ]).toEqual([outcome, outcome === 'pass'])
      expect(compareSides(a, b)).toMatchObject({ score: { verdict } })
      const won = verdict === 'worse' ? 'better' : verdict
      expect(compareSides(b, a)).toMatchObject({ score: { verdict: won } })
    }
  })

  test('a higher confidence blocks less, and what is lost everywhere is seen', () => {
    for (const count of [5, 7, 9, 12]) expect(blocked(count, 0.99)).toBeLessThanOrEqual(0.01)
    expect([blocked(5, 0.99), blocked(7, 0.99)]).toEqual([0, 1 / 128])
  })
})

describe('[EVAL38] the promotion gate', () => {
  const rule = (given: object = {}) => GateRule.parse(given)
  const good = sideOf('a', times(20, 1))

  test('passes what is not shown to be worse, and says what held', () => {
    expect(decidePromotion(rule({ minScore: 0.9 }), sideOf('b', times(20, 1)), good)).toEqual({
      outcome: 'pass',
      reasons: [
        'The score is 1, at least 0.9',
        'It is not shown to be worse: the difference to the baseline is between 0.000 and 0.000 (95 %)',
      ],
    })
  })

  const worse = sideOf('b', [...times(12, 1), ...times(8, 0)])
  const slightly = sideOf('b', [...times(18, 1), 0, 0])
  const requires = (scores: number[]) => {
    const side = sideOf('b', scores)
    side.cases[0] = { id: 'c0', repetitions: 1, required: true }
    return side
  }
  test.each([
    [
      'a low score',
      { minScore: 0.95, interval: null },
      slightly,
      good,
      'fail',
      'The score is 0.9, below 0.95',
    ],
    [
      'shown worse',
      {},
      worse,
      good,
      'fail',
      'It is shown to be worse: the difference to the baseline is between -0.635 and -0.165 (95 %)',
    ],
    [
      'a drop that is allowed',
      { interval: { allowedDrop: 0.5 } },
      worse,
      good,
      'pass',
      'It is not shown to be worse',
    ],
    [
      'a drop that is not ruled out',
      { interval: { blocks: 'not_shown_equal', allowedDrop: 0.1 } },
      slightly,
      good,
      'inconclusive',
      'A drop of more than 0.1 is not ruled out',
    ],
    [
      'a drop that is ruled out',
      { interval: { blocks: 'not_shown_equal', allowedDrop: 0.3 } },
      slightly,
      good,
      'pass',
      'It is not shown to be worse',
    ],
    [
      'worse, where equality must be shown',
      { interval: { blocks: 'not_shown_equal' } },
      worse,
      good,
      'fail',
      'It is shown to be worse',
    ],
    [
      'a required case',
      {},
      requires([0, ...times(19, 1)]),
      good,
      'fail',
      'The required case "c0" did not pass',
    ],
    [
      'a required case that does not count',
      { requiredCases: false },
      requires([0, ...times(19, 1)]),
      good,
      'pass',
      'It is not',
    ],
    [
      'required cases that passed',
      {},
      requires(times(20, 1)),
      good,
      'pass',
      'All 1 required cases passed',
    ],
    ['no baseline', {}, good, null, 'inconclusive', 'There is no baseline to compare with'],
    [
      'no baseline, and none needed',
      { interval: null, minScore: 0.5 },
      good,
      null,
      'pass',
      'The score is 1',
    ],
    [
      'a baseline of another suite',
      {},
      good,
      { ...good, suiteDigest: 'x' },
      'inconclusive',
      'The baseline is of another suite',
    ],
    [
      'too few cases',
      {},
      sideOf('b', times(9, 1)),
      sideOf('a', times(9, 1)),
      'inconclusive',
      'There are 9 cases, and the rule needs at least 10',
    ],
    [
      'too few cases, and a low score',
      { minScore: 0.5 },
      sideOf('b', times(9, 0)),
      sideOf('a', times(9, 1)),
      'fail',
      'The score is 0, below 0.5',
    ],
    [
      'a part of the cases',
      {},
      sideOf('b', times(15, 1)),
      good,
      'inconclusive',
      '5 cases of the baseline were not run',
    ],
    [
      'a part of the cases, where nothing is held against the baseline',
      { interval: null },
      sideOf('b', times(15, 1)),
      good,
      'inconclusive',
      '5 cases of the baseline were not run',
    ],
    [
      'a part of the suite without a baseline',
      { interval: null },
      sideOf('b', times(15, 1), { leftOut: [{ id: 'c15', required: false }] }),
      null,
      'inconclusive',
      '1 case of the suite was not run',
    ],
    [
      'a required case that only the suite has',
      { interval: null },
      sideOf('b', times(15, 1), { leftOut: [{ id: 'c15', required: true }] }),
      null,
      'inconclusive',
      'The required case "c15" was not run',
    ],
    [
      'a required case that only the baseline has run',
      { interval: null },
      sideOf('b', times(19, 1)),
      sideOf('a', times(20, 1), {
        cases: good.cases.map((one) => ({ ...one, required: one.id === 'c19' })),
      }),
      'inconclusive',
      'The required case "c19" was not run',
    ],
    [
      'a case that the baseline did not run either',
      { interval: null },
      sideOf('b', times(20, 1)),
      sideOf('a', times(20, 1), { leftOut: [{ id: 'c99', required: true }] }),
      'inconclusive',
      'The required case "c99" was not run',
    ],
    [
      'another suite, where nothing is held against the baseline',
      { interval: null },
      sideOf('b', times(20, 1), { suiteDigest: 'easy' }),
      good,
      'inconclusive',
      'The baseline is of another suite',
    ],
    [
      'too few in common',
      {},
      sideOf('b', times(20, 1)),
      sideOf('a', times(9, 1)),
      'inconclusive',
      '9 cases can be compared',
    ],
    [
      'a case that only the baseline has',
      { minCases: 5 },
      sideOf('b', times(6, 1)),
      sideOf('a', times(9, 1)),
      'inconclusive',
      '3 cases of the baseline were not run',
    ],
    [
      'missing rows',
      { minScore: 0.9 },
      { ...good, rows: good.rows.slice(0, 10) },
      good,
      'fail',
      'The score is 0.5, below 0.9',
    ],
  ] as const)('%s', (_, given, candidate, baseline, outcome, reason) => {
    const decision = decidePromotion(rule(given), candidate, baseline)
    expect(decision.outcome).toBe(outcome)
    expect(decision.reasons.some((text) => text.startsWith(reason))).toBe(true)
  })

  test('counts the required cases of the suite, and says of none that was not run that it passed', () => {
    const required = (id: string) => ({ id, repetitions: 1, required: true })
    const cases = ['c0', 'c1'].map(required)
    const leftOut = [{ id: 'c99', required: true }]
    const candidate = sideOf('b', [...times(10, 1)], { leftOut })
    candidate.cases.splice(0, 2, ...cases)
    const { outcome, reasons } = decidePromotion(rule({ interval: null }), candidate, null)
    expect([outcome, reasons]).toEqual([
      'inconclusive',
      ['The required case "c99" was not run', '1 case of the suite was not run'],
    ])
  })

  test('under no difference it blocks at most the stated share', () => {
    const next = random(5)
    for (const [cases, differing, trials] of [
      [10, 0.5, 1500],
      [12, 1, 1500],
      [20, 0.3, 1500],
      [29, 0.2, 1000],
      [30, 0.3, 60],
    ] as const) {
      let blocked = 0
      for (let trial = 0; trial < trials; trial += 1) {
        // Both sides pass a case equally often; how many cases differ between them varies.
        const pairs = Array.from({ length: cases }, () => {
          const side = next() < 0.5
          return next() < differing ? [Number(side), Number(!side)] : [Number(side), Number(side)]
        })
        const decision = decidePromotion(
          rule(),
          sideOf(
            'b',
            pairs.map(([score = 0]) => score),
          ),
          sideOf(
            'a',
            pairs.map(([, score = 0]) => score),
          ),
          { seed: trial },
        )
        if (decision.outcome !== 'pass') blocked += 1
      }
      expect(blocked / trials, `${cases} cases`).toBeLessThanOrEqual(0.05)
    }
  })

  test('a real drop is blocked', () => {
    const next = random(9)
    let blocked = 0
    for (let trial = 0; trial < 200; trial += 1) {
      const baseline = Array.from({ length: 29 }, () => Number(next() < 0.95))
      const candidate = baseline.map((score) => (next() < 0.4 ? 0 : score))
      if (decidePromotion(rule(), sideOf('b', candidate), sideOf('a', baseline)).outcome === 'fail')
        blocked += 1
    }
    expect(blocked / 200).toBeGreaterThan(0.95)
  })
})
