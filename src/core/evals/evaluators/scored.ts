import type { EvalCase } from '../../../contract/eval-suite.ts'
import type { ProviderResponse } from '../../../contract/eval-response.ts'
import { borderlineScore, type EvalVerdict, passScore } from '../../../contract/eval-result.ts'

/** What an evaluator says: a score from 0 to 1, and sentences that say why. */
export interface Scored {
  score: number
  hits: string[]
  misses: string[]
  reasoning?: string
  details?: Record<string, unknown>
}

/** What every evaluator may look at. */
export interface Subject {
  case: EvalCase
  response: ProviderResponse
}

export const scoredMiss = (miss: string, details?: Record<string, unknown>): Scored => ({
  score: 0,
  hits: [],
  misses: [miss],
  ...(details !== undefined && { details }),
})

/** All or nothing. */
export const scoredEither = (holds: boolean, hit: string, miss: string): Scored =>
  holds ? { score: 1, hits: [hit], misses: [] } : scoredMiss(miss)

/** One sentence per check; the score is the share of those that hold. */
export function scoredShare(checks: readonly { holds: boolean; says: string }[]): Scored {
  const hits = checks.filter(({ holds }) => holds).map(({ says }) => says)
  const misses = checks.filter(({ holds }) => !holds).map(({ says }) => says)
  return { score: checks.length === 0 ? 0 : roundScore(hits.length / checks.length), hits, misses }
}

/** Sums of halves and thirds must not miss a threshold by the last bit. */
export const roundScore = (score: number): number =>
  Math.min(1, Math.max(0, Math.round(score * 1e9) / 1e9))

export const scoredVerdict = (score: number): EvalVerdict =>
  score >= passScore ? 'pass' : score >= borderlineScore ? 'borderline' : 'fail'

/** Values in sentences are short. */
export function scoredText(given: unknown): string {
  const text = given === undefined ? 'nothing' : JSON.stringify(given)
  return text.length > 120 ? `${text.slice(0, 119)}…` : text
}

export const times = (count: number): string => `${count} ${count === 1 ? 'time' : 'times'}`
