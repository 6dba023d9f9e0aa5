import type { EvaluatorConfig } from '../../../contract/eval-evaluator.ts'

/** The targets that an evaluator, or a part of it, names as its judge. */
export function evaluatorJudges(evaluator: EvaluatorConfig): string[] {
  if (evaluator.type === 'composite') return evaluator.evaluators.flatMap(evaluatorJudges)
  if (evaluator.type !== 'llm_judge' && evaluator.type !== 'rubric') return []
  return evaluator.target === undefined ? [] : [evaluator.target]
}
