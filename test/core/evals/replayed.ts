import type { EvalSide } from '../../../src/contract/eval-compare.ts'
import type { EvalSuite } from '../../../src/contract/eval-suite.ts'
import type { Target } from '../../../src/contract/eval-target.ts'
import { suiteFileDigest } from '../../../src/core/evals/files/suite.ts'
import { errorResultRow, scoredResultRow } from '../../../src/core/evals/results/rows.ts'

/** Scores the recorded answers of a target, without any run. */
export function replayed(suite: EvalSuite, target: Target | undefined, runId: string): EvalSide {
  if (target?.provider !== 'replay') throw new Error('Expected a replay target')
  return {
    runId,
    target: target.name,
    suiteDigest: suiteFileDigest(suite),
    cases: suite.cases.map(({ id, repetitions, required }) => ({ id, repetitions, required })),
    leftOut: [],
    rows: suite.cases.map((each) => {
      const attempted = {
        ...{ case: each, dataset: suite.dataset, target: target.name, attempt: 0 },
        timestamp: '2026-11-18T00:00:00.000Z',
      }
      const response = target.responses[each.id]?.[0]
      return response === undefined
        ? errorResultRow(attempted, 'Nothing was recorded')
        : scoredResultRow(attempted, response, {})
    }),
  }
}
