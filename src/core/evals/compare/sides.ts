import type { EvalSide, SideSummary } from '../../../contract/eval-compare.ts'
import type { ResultRow } from '../../../contract/eval-result.ts'
import { roundScore } from '../evaluators/scored.ts'
import { passAtK, passPowK } from '../statistics/repetitions.ts'

/** One case of one side: all its repetitions. What is missing or has an error counts as failed with score 0. */
export interface CaseTrials {
  id: string
  repetitions: number
  score: number
  passes: number
  errors: number
  missing: number
  /** The one with the lowest score, if there is any. */
  worst: ResultRow | null
  /** The mean over the repetitions by the name of the evaluator; 0 where one has none. */
  evaluators: ReadonlyMap<string, number>
}

/** More than half. */
export const isPassedTrial = ({ passes, repetitions }: CaseTrials): boolean =>
  passes * 2 > repetitions

/** By case, in the order of the plan. Rows of cases or repetitions that were not planned are no results of this run. */
export function trialsOfSide(side: EvalSide): Map<string, CaseTrials> {
  const planned = new Map(
    side.cases.map(({ id, repetitions }) => [
      id,
      { repetitions, rows: new Map<number, ResultRow>() },
    ]),
  )
  for (const row of side.rows) {
    const plan = planned.get(row.eval_id)
    // Of two rows of one attempt the first one counts: a result that is stored is final.
    if (plan === undefined || row.attempt >= plan.repetitions || row.target !== side.target)
      continue
    if (!plan.rows.has(row.attempt)) plan.rows.set(row.attempt, row)
  }
  return new Map(
    [...planned].map(([id, { repetitions, rows }]) => [
      id,
      trialOf(id, repetitions, [...rows.values()]),
    ]),
  )
}

function trialOf(id: string, repetitions: number, rows: readonly ResultRow[]): CaseTrials {
  const good = rows.filter(({ error }) => error === undefined)
  const evaluators = new Map<string, number>()
  for (const { evaluator_results: results } of good)
    for (const { name, score } of results)
      evaluators.set(name, (evaluators.get(name) ?? 0) + score / repetitions)
  return {
    id,
    repetitions,
    score: roundScore(good.reduce((sum, { score }) => sum + score, 0) / repetitions),
    passes: good.filter(({ verdict }) => verdict === 'pass').length,
    errors: rows.length - good.length,
    missing: repetitions - rows.length,
    worst: rows.toSorted((a, b) => badness(b) - badness(a))[0] ?? null,
    evaluators,
  }
}

const badness = ({ error, score }: ResultRow): number => (error === undefined ? 1 - score : 2)

export function summaryOfSide(side: EvalSide, trials: readonly CaseTrials[]): SideSummary {
  const mean = (of: (trial: CaseTrials) => number) =>
    trials.length === 0 ? 0 : trials.reduce((sum, trial) => sum + of(trial), 0) / trials.length
  // What every case has had as often.
  const most = Math.min(...trials.map(({ repetitions }) => repetitions), 100)
  const meansOf = (sharesOf: (n: number, c: number, most: number) => number[]) => {
    const sums = Array.from({ length: trials.length === 0 ? 0 : most }, () => 0)
    for (const { repetitions, passes } of trials)
      for (const [at, share] of sharesOf(repetitions, passes, most).entries())
        sums[at] = (sums[at] ?? 0) + share
    return sums.map((sum) => sum / trials.length)
  }
  return {
    runId: side.runId,
    target: side.target,
    cases: trials.length,
    score: roundScore(mean(({ score }) => score)),
    passed: trials.filter(isPassedTrial).length,
    errors: trials.reduce((sum, { errors }) => sum + errors, 0),
    missing: trials.reduce((sum, { missing }) => sum + missing, 0),
    passAtK: meansOf(passAtK),
    passPowK: meansOf(passPowK),
  }
}

/** What can be said of one run alone. */
export const summarise = (side: EvalSide): SideSummary =>
  summaryOfSide(side, [...trialsOfSide(side).values()])
