import type { EvalSide } from '../../../src/contract/eval-compare.ts'
import type { ResultRow } from '../../../src/contract/eval-result.ts'
import { scoredVerdict } from '../../../src/core/evals/evaluators/scored.ts'

export const rowOf = (id: string, score: number, rest: Partial<ResultRow> = {}): ResultRow => ({
  timestamp: '2026-11-18T00:00:00.000Z',
  eval_id: id,
  dataset: 'set',
  target: 'agent',
  attempt: 0,
  score,
  verdict: scoredVerdict(score),
  hits: [],
  misses: score < 1 ? ['Something is missing'] : [],
  candidate_answer: 'answer',
  evaluator_results: [
    {
      name: 'contains',
      type: 'contains',
      score,
      weight: 1,
      required: false,
      verdict: scoredVerdict(score),
      hits: [],
      misses: [],
    },
  ],
  ...rest,
})

/** One row per score, of cases c0, c1, … */
export const sideOf = (
  runId: string,
  scores: readonly number[],
  rest: Partial<EvalSide> = {},
): EvalSide => ({
  runId,
  target: 'agent',
  suiteDigest: 'd',
  cases: scores.map((_, at) => ({ id: `c${at}`, repetitions: 1, required: false })),
  leftOut: [],
  rows: scores.map((score, at) =>
    rowOf(`c${at}`, score, { transcript: `/v1/sessions/${runId}-c${at}/events` }),
  ),
  ...rest,
})
