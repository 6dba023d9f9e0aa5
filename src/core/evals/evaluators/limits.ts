import type { Cost, Latency, TokenUsageLimit } from '../../../contract/eval-evaluator.ts'
import { scoredEither, scoredMiss, type Scored, type Subject } from './scored.ts'

/** All or nothing; without a measurement there is nothing to be within. */

export function scoreLatencyLimit({ threshold }: Latency, { response }: Subject): Scored {
  const { durationMs } = response
  if (durationMs === undefined) return scoredMiss('No duration available for evaluation')
  const says = (word: string) => `Took ${durationMs} ms, ${word} ${threshold} ms`
  return scoredEither(durationMs <= threshold, says('at most'), says('more than'))
}

export function scoreCostLimit({ budget }: Cost, { response }: Subject): Scored {
  const { costUsd } = response
  if (costUsd === undefined) return scoredMiss('No cost available for evaluation')
  const says = (word: string) => `Cost ${dollars(costUsd)}, ${word} ${dollars(budget)}`
  return scoredEither(costUsd <= budget, says('at most'), says('more than'))
}

const dollars = (amount: number): string => `$${amount.toFixed(4)}`

export function scoreTokenLimit(config: TokenUsageLimit, { response }: Subject): Scored {
  const usage = response.tokenUsage
  if (usage === undefined) return scoredMiss('No token usage available for evaluation')
  const total = usage.input + usage.output + (usage.cached ?? 0)
  const limits = [
    ['Total', total, config.maxTotal],
    ['Input', usage.input, config.maxInput],
    ['Output', usage.output, config.maxOutput],
  ] as const
  const says = (name: string, count: number, limit: number) =>
    `${name}: ${count} tokens, ${count <= limit ? 'at most' : 'more than'} ${limit}`
  const set = limits.flatMap(([name, count, limit]) =>
    limit === undefined ? [] : [{ holds: count <= limit, says: says(name, count, limit) }],
  )
  const misses = set.filter(({ holds }) => !holds).map((check) => check.says)
  const hits = set.filter(({ holds }) => holds).map((check) => check.says)
  return { score: misses.length === 0 && hits.length > 0 ? 1 : 0, hits, misses }
}
