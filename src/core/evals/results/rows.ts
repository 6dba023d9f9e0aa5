import type { ProviderResponse } from '../../../contract/eval-response.ts'
import type { ResultRow } from '../../../contract/eval-result.ts'
import type { EvalCase } from '../../../contract/eval-suite.ts'
import { type Answers, scoreCase } from '../evaluators/score.ts'
import { scoredVerdict } from '../evaluators/scored.ts'
import {
  hasResponseTrace,
  responseAnswer,
  responseToolCalls,
  responseTrace,
} from '../response/answer.ts'

/** Which attempt a row is about. */
export interface Attempted {
  case: EvalCase
  dataset: string
  target: string
  /** From 0. */
  attempt: number
  timestamp: string
  transcript?: string
}

/** The row of an attempt that gave an answer. */
export function scoredResultRow(
  attempted: Attempted,
  response: ProviderResponse,
  answers: Answers,
): ResultRow {
  const { score, hits, misses, reasoning, results } = scoreCase(
    { case: attempted.case, response },
    answers,
  )
  return {
    ...headOf(attempted),
    score,
    verdict: scoredVerdict(score),
    hits,
    misses,
    candidate_answer: responseAnswer(response),
    ...(reasoning !== undefined && { reasoning }),
    evaluator_results: results,
    trace_summary: responseTrace(response),
    ...(hasResponseTrace(response) && { tool_calls: responseToolCalls(response) }),
  }
}

/** The row of an attempt that gave none: it failed to start, timed out, was blocked. */
export const errorResultRow = (attempted: Attempted, error: string): ResultRow => ({
  ...headOf(attempted),
  score: 0,
  verdict: 'fail',
  hits: [],
  misses: [`Error: ${error}`],
  candidate_answer: '',
  evaluator_results: [],
  error,
})

const headOf = ({ case: { id, conversationId }, ...rest }: Attempted) => ({
  timestamp: rest.timestamp,
  eval_id: id,
  dataset: rest.dataset,
  ...(conversationId !== undefined && { conversation_id: conversationId }),
  target: rest.target,
  attempt: rest.attempt,
  ...(rest.transcript !== undefined && { transcript: rest.transcript }),
})
