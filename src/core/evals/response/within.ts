import type { EvaluatorResult, ResultRow } from '../../../contract/eval-result.ts'
import type { CallCounts, ProviderResponse } from '../../../contract/eval-response.ts'
import { cutOutput } from '../../abilities/outputs.ts'
import { countResponseCalls, hasResponseTrace, responseAnswer } from './answer.ts'

/** In UTF-8 these are at most 1.5 MB: a value in an object's database has at most 2. */
const maxLength = 500_000
const shortest = 100
const maxNames = 1000

/**
 * What a target has answered, with long texts cut until all of it fits into one row. Of calls that are too many their
 * counts are kept, so that nothing takes them for none.
 */
export const responseWithin = (response: ProviderResponse): ProviderResponse =>
  within(response, () => ({
    ...response,
    outputMessages: [{ role: 'assistant', content: responseAnswer(response) }],
    ...(hasResponseTrace(response) && { cutCalls: shortCounts(countResponseCalls(response)) }),
  }))

/** Its score stays, whatever the candidate or a judge has written. */
export const responseResultWithin = (row: ResultRow): ResultRow =>
  within(row, () => {
    const { tool_calls: calls, trace_summary: trace, ...rest } = row
    return {
      ...rest,
      hits: [],
      misses: row.misses.slice(0, 100).map((text) => cutOutput(text, shortest)),
      evaluator_results: row.evaluator_results.map(withoutTexts),
      ...(trace !== undefined && {
        trace_summary: {
          ...trace,
          ...shortCounts(trace),
          ...(calls !== undefined && calls.length > 0 && { cut: true as const }),
        },
      }),
    }
  })

/** The numbers are exact; of very many names there are some. */
function shortCounts(counts: CallCounts): CallCounts {
  const names = counts.tool_names.slice(0, maxNames)
  return {
    event_count: counts.event_count,
    tool_names: names.map((name) => cutOutput(name, shortest)),
    tool_calls_by_name: Object.fromEntries(
      names.map((name) => [cutOutput(name, shortest), counts.tool_calls_by_name[name] ?? 0]),
    ),
    error_count: counts.error_count,
  }
}

function withoutTexts(result: EvaluatorResult): EvaluatorResult {
  const { name, type, score, weight, required, verdict } = result
  return { name, type, score, weight, required, verdict, hits: [], misses: [] }
}

function within<T>(value: T, drop: () => T): T {
  if (lengthOf(value) <= maxLength) return value
  for (let most = maxLength / 2; most >= shortest; most = Math.floor(most / 2)) {
    const cut = cutTexts(value, most) as T
    if (lengthOf(cut) <= maxLength) return cut
  }
  // Not long texts but very many.
  return cutTexts(drop(), maxLength / 10) as T
}

const lengthOf = (value: unknown): number => JSON.stringify(value).length

function cutTexts(value: unknown, most: number): unknown {
  if (typeof value === 'string') return cutOutput(value, most)
  if (Array.isArray(value)) return value.map((item) => cutTexts(item, most))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, cutTexts(item, most)]))
}
