import type { EvaluatorResult, ResultRow } from '../../../contract/eval-result.ts'
import type { ProviderResponse } from '../../../contract/eval-response.ts'
import { cutOutput } from '../../abilities/outputs.ts'

/** In UTF-8 these are at most 1.5 MB: a value in an object's database has at most 2. */
const maxLength = 500_000
const shortest = 100

/** What a target has answered, with long texts cut until all of it fits into one row. */
export const responseWithin = (response: ProviderResponse): ProviderResponse =>
  within(response, () => ({
    ...response,
    outputMessages: response.outputMessages.slice(-1).map(({ role, content }) => ({
      role,
      content: typeof content === 'string' ? cutOutput(content, maxLength / 10) : '',
      toolCalls: [],
    })),
  }))

/** Its score, hits and misses stay, whatever the candidate or a judge has written. */
export const responseResultWithin = (row: ResultRow): ResultRow =>
  within(row, () => ({
    ...row,
    candidate_answer: cutOutput(row.candidate_answer, maxLength / 10),
    hits: [],
    misses: row.misses.slice(0, 100).map((text) => cutOutput(text, shortest)),
    evaluator_results: row.evaluator_results.map(withoutTexts),
    tool_calls: [],
  }))

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
  return drop()
}

const lengthOf = (value: unknown): number => JSON.stringify(value).length

function cutTexts(value: unknown, most: number): unknown {
  if (typeof value === 'string') return cutOutput(value, most)
  if (Array.isArray(value)) return value.map((item) => cutTexts(item, most))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, cutTexts(item, most)]))
}
