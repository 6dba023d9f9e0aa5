import { type EvaluatorConfig, LeafEvaluator } from '../../../src/contract/eval-evaluator.ts'
import type { EvalToolCall, ProviderResponse } from '../../../src/contract/eval-response.ts'
import { EvalCase } from '../../../src/contract/eval-suite.ts'
import { type Answers, scoreCase } from '../../../src/core/evals/evaluators/score.ts'

/** A case with these evaluators; whatever else it has does not matter. */
export const caseWith = (evaluators: readonly EvaluatorConfig[], rest: object = {}): EvalCase =>
  EvalCase.parse({
    id: 'case',
    expectedOutcome: 'It works',
    inputMessages: [{ role: 'user', content: 'Do it' }],
    evaluators,
    ...rest,
  })

export const answered = (
  content: unknown,
  toolCalls?: EvalToolCall[],
  rest: Partial<ProviderResponse> = {},
): ProviderResponse => ({
  outputMessages: [{ role: 'assistant', content, ...(toolCalls !== undefined && { toolCalls }) }],
  ...rest,
})

/** One evaluator's word on a response. */
export function scoreOf(
  config: object,
  response: ProviderResponse,
  answers: Answers = {},
  rest: object = {},
) {
  const evaluator = LeafEvaluator.parse({ name: 'e', ...config })
  const { score, hits, misses } = scoreCase(
    { case: caseWith([evaluator], rest), response },
    answers,
  )
  return { score, hits, misses }
}
