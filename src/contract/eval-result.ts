import { z } from 'zod'
import { CallCounts, EvalToolCall } from './eval-response.ts'

/**
 * What came of an attempt. Our own keys are snake_case here, because these rows are lines of JSONL that others read; names
 * of tools and whatever else users chose are never changed.
 */

export const passScore = 0.8
export const borderlineScore = 0.6

export const EvalVerdict = z.enum(['pass', 'borderline', 'fail'])
export type EvalVerdict = z.infer<typeof EvalVerdict>

const score = z.number().min(0).max(1)
const sentences = z.array(z.string())
const shape = {
  name: z.string(),
  type: z.string(),
  score,
  weight: z.number().min(0),
  required: z.boolean(),
  verdict: EvalVerdict,
  hits: sentences,
  misses: sentences,
  reasoning: z.string().optional(),
  details: z.record(z.string(), z.unknown()).optional().describe("Such as a judge's prompt"),
}
const PartResult = z.object(shape)
export const EvaluatorResult = z.object({
  ...shape,
  evaluator_results: z.array(PartResult).optional().describe('Of the parts of a composite'),
})
export type EvaluatorResult = z.infer<typeof EvaluatorResult>

const count = z.number().int().min(0)
export const TraceSummary = CallCounts.extend({
  cut: z.literal(true).optional().describe('The calls were too many: only these counts were kept'),
  token_usage: z.object({ input: count, output: count, cached: count.optional() }).optional(),
  cost_usd: z.number().min(0).optional(),
  duration_ms: z.number().min(0).optional(),
})
export type TraceSummary = z.infer<typeof TraceSummary>

export const ResultRow = z.object({
  timestamp: z.string(),
  eval_id: z.string(),
  dataset: z.string(),
  conversation_id: z.string().optional(),
  target: z.string(),
  attempt: count.describe('From 0: which repetition'),
  score,
  verdict: EvalVerdict,
  hits: sentences,
  misses: sentences,
  candidate_answer: z.string(),
  reasoning: z.string().optional(),
  evaluator_results: z.array(EvaluatorResult),
  trace_summary: TraceSummary.optional(),
  tool_calls: z.array(EvalToolCall).optional().describe('Absent: there is no trace of them'),
  error: z.string().optional().describe('Set: the attempt gave no answer that could be scored'),
  transcript: z.string().optional().describe('Where the whole attempt can be read'),
})
export type ResultRow = z.infer<typeof ResultRow>
