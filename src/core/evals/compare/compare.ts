import type {
  CaseComparison,
  ComparedVerdict,
  Comparison,
  EvalSide,
  PassComparison,
  ScoreComparison,
} from '../../../contract/eval-compare.ts'
import { confidenceInterval, maxDraws } from '../statistics/interval.ts'
import { mcnemar } from '../statistics/mcnemar.ts'
import { isSignFlipRare, signFlipChance } from '../statistics/sign-flips.ts'
import { type CaseTrials, isPassedTrial, summaryOfSide, trialsOfSide } from './sides.ts'

/**
 * Two runs of one suite, case by case. A difference is said to be one only if it is shown: by the interval of the mean
 * difference for scores, by the exact test for pass and fail. Pure; the same rows and seed give the same answer.
 */

/** With fewer cases nothing is said to be shown, whatever the numbers are. */
const minComparedCases = 5
const confidence = 0.95

/** Regressions come with everything that is needed to look at them; of the rest there may be thousands. */
export function compareSides(
  baseline: EvalSide,
  candidate: EvalSide,
  { seed = 1 }: { seed?: number } = {},
): Comparison {
  if (baseline.suiteDigest !== candidate.suiteDigest)
    return {
      comparable: false,
      reason: 'The two runs are of different suites: their digests are not the same',
    }
  const [before, after] = [trialsOfSide(baseline), trialsOfSide(candidate)]
  const pairs = pairsOf(before, after)
  if (pairs.length === 0)
    return { comparable: false, reason: 'The two runs have no case in common' }
  const byEvaluator = pairsByEvaluator(pairs)
  const compare = (of: (trial: CaseTrials) => number, own: readonly Pair[], draws: number) =>
    compareScores(
      own.map(({ before, after }) => [of(before), of(after)]),
      seed,
      draws,
    )
  return {
    comparable: true,
    baseline: summaryOfSide(
      baseline,
      pairs.map(({ before }) => before),
    ),
    candidate: summaryOfSide(
      candidate,
      pairs.map(({ after }) => after),
    ),
    score: compare(({ score }) => score, pairs, maxDraws),
    passes: comparePasses(pairs),
    evaluators: [...byEvaluator].map(([name, own]) => ({
      name,
      cases: own.length,
      ...compare(({ evaluators }) => evaluators.get(name) ?? 0, own, maxDraws / byEvaluator.size),
    })),
    cases: casesOf(
      pairs,
      new Set(candidate.cases.filter(({ required }) => required).map(({ id }) => id)),
    ),
    onlyBaseline: unpaired(before, after),
    onlyCandidate: unpaired(after, before),
    seed,
  }
}

interface Pair {
  before: CaseTrials
  after: CaseTrials
}

/** In one pass: there may be as many names as cases. */
function pairsByEvaluator(pairs: readonly Pair[]): Map<string, Pair[]> {
  const found = new Map<string, Pair[]>()
  for (const pair of pairs)
    for (const name of new Set([
      ...pair.before.evaluators.keys(),
      ...pair.after.evaluators.keys(),
    ])) {
      const own = found.get(name)
      if (own) own.push(pair)
      else found.set(name, [pair])
    }
  return found
}

type Trials = ReadonlyMap<string, CaseTrials>

/** By case. */
const pairsOf = (baseline: Trials, candidate: Trials): Pair[] =>
  [...baseline.values()].flatMap((before) => {
    const after = candidate.get(before.id)
    return after === undefined ? [] : [{ before, after }]
  })

/** A run may be of a part of its suite. */
const unpaired = (own: Trials, other: Trials): string[] =>
  [...own.keys()].filter((id) => !other.has(id))

function compareScores(
  scores: readonly (readonly [number, number])[],
  seed: number,
  draws: number,
): ScoreComparison {
  const differences = scores.map(([before, after]) => rounded(after - before))
  const mean = (values: readonly number[]) =>
    values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length)
  const interval = confidenceInterval(differences, { confidence, seed, draws })
  return {
    baseline: rounded(mean(scores.map(([before]) => before))),
    candidate: rounded(mean(scores.map(([, after]) => after))),
    difference: rounded(mean(differences)),
    interval,
    wins: differences.filter((difference) => difference > 0).length,
    ties: differences.filter((difference) => difference === 0).length,
    losses: differences.filter((difference) => difference < 0).length,
    verdict: verdictOf(differences, interval),
  }
}

const rounded = (value: number): number => Math.round(value * 1e9) / 1e9

function verdictOf(
  differences: readonly number[],
  interval: ScoreComparison['interval'],
): ComparedVerdict {
  if (differences.length < minComparedCases || interval === null) return 'inconclusive'
  const isRare = (lost: readonly number[]) => isSignFlipRare(signFlipChance(lost), confidence)
  if (interval.high < 0 && isRare(differences)) return 'worse'
  const isBetter = interval.low > 0 && isRare(differences.map((difference) => -difference))
  return isBetter ? 'better' : 'no_difference_shown'
}

function comparePasses(pairs: readonly Pair[]): PassComparison {
  const count = (before: boolean, after: boolean) =>
    pairs.filter(
      (pair) => isPassedTrial(pair.before) === before && isPassedTrial(pair.after) === after,
    ).length
  const [onlyBaseline, onlyCandidate] = [count(true, false), count(false, true)]
  const pValue = rounded(mcnemar(onlyBaseline, onlyCandidate))
  const isShown = pValue < 1 - confidence
  const shown = onlyCandidate > onlyBaseline ? 'better' : 'worse'
  return {
    bothPassed: count(true, true),
    onlyBaseline,
    onlyCandidate,
    bothFailed: count(false, false),
    pValue,
    verdict:
      pairs.length < minComparedCases ? 'inconclusive' : isShown ? shown : 'no_difference_shown',
  }
}

function casesOf(pairs: readonly Pair[], required: ReadonlySet<string>): CaseComparison[] {
  return pairs
    .map(({ before, after }): CaseComparison => {
      const difference = rounded(after.score - before.score)
      const step = Number(isPassedTrial(after)) - Number(isPassedTrial(before)) || difference
      return {
        evalId: before.id,
        required: required.has(before.id),
        change: step < 0 ? 'regression' : step > 0 ? 'improvement' : 'same',
        difference,
        baseline: caseSide(before),
        candidate: caseSide(after),
        misses: after.worst?.misses ?? ['There is no result'],
      }
    })
    .toSorted(
      (a, b) =>
        rank[a.change] - rank[b.change] ||
        Number(b.required) - Number(a.required) ||
        a.difference - b.difference ||
        (a.evalId < b.evalId ? -1 : 1),
    )
}

const rank = { regression: 0, improvement: 1, same: 2 } as const

const caseSide = (trial: CaseTrials): CaseComparison['baseline'] => ({
  score: trial.score,
  passed: isPassedTrial(trial),
  error: trial.worst?.error ?? (trial.missing > 0 ? 'There is no result' : null),
  transcript: trial.worst?.transcript ?? null,
})
