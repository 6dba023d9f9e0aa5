import type { EvalSide } from '../src/contract/eval-compare.ts'
import type { ResultRow } from '../src/contract/eval-result.ts'
import { compareSides } from '../src/core/evals/compare/compare.ts'
import type { Row } from './table.ts'

const cases = 5000

/** Results of two evaluators each, in which every other case differs a little from the other side. */
function sideOf(runId: string, shift: number): EvalSide {
  const ids = Array.from({ length: cases }, (_, at) => `case-${at}`)
  return {
    ...{ runId, target: 'agent', suiteDigest: 'd' },
    cases: ids.map((id) => ({ id, repetitions: 1, required: false })),
    leftOut: [],
    rows: ids.map((id, at): ResultRow => {
      const score = ((at * 7 + (at % 2) * shift) % 11) / 10
      const verdict = score >= 0.8 ? 'pass' : 'fail'
      const result = { type: 'contains', score, weight: 1, required: false, verdict } as const
      return {
        ...{ timestamp: '2026-11-18T00:00:00.000Z', eval_id: id, dataset: 'd', target: 'agent' },
        ...{ attempt: 0, score: Math.min(1, score), verdict, candidate_answer: 'answer' },
        ...{ hits: [], misses: ['Something is missing'] },
        evaluator_results: ['one', 'two'].map((name) => ({
          ...result,
          ...{ name, score: Math.min(1, score), hits: [], misses: [] },
        })),
      }
    }),
  }
}

/** Ten thousand stored results, with the score and both evaluators resampled. */
export function measureEvals(): Row[] {
  const [baseline, candidate] = [sideOf('a', 0), sideOf('b', 3)]
  compareSides(baseline, candidate)
  const begun = performance.now()
  const comparison = compareSides(baseline, candidate)
  const seconds = (performance.now() - begun) / 1000
  if (!comparison.comparable || comparison.evaluators.length !== 2) throw new Error('Not compared')
  return [{ measure: 'evals: 10,000 results compared', ours: seconds, unit: 's', aim: { most: 1 } }]
}
