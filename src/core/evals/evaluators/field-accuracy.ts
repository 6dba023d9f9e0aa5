import type { FieldAccuracy, FieldMatch } from '../../../contract/eval-evaluator.ts'
import { jsonOfAnswer, responseAnswer } from '../response/answer.ts'
import { isEqual, isRecord } from './equality.ts'
import { scoredMiss, roundScore, type Scored, scoredText, type Subject } from './scored.ts'

/** Fields of a JSON answer against those of the last expected message. */
export function scoreFieldAccuracy(
  { fields, aggregation }: FieldAccuracy,
  { case: { expectedMessages }, response }: Subject,
): Scored {
  const expected = jsonOfAnswer(expectedMessages.at(-1)?.content)
  if (!isRecord(expected) && !Array.isArray(expected))
    return scoredMiss('No expected data: the last of expected_messages has no object')
  const answer = jsonOfAnswer(responseAnswer(response))
  if (!isRecord(answer) && !Array.isArray(answer)) return scoredMiss('The answer is no JSON object')
  const hits: string[] = []
  const misses: string[] = []
  let reached = 0
  let possible = 0
  for (const field of fields) {
    const wanted = at(expected, field.path)
    const given = at(answer, field.path)
    if (given === undefined && !field.required) continue
    const problem = problemOf(field, wanted, given)
    possible += field.weight
    if (problem === null) reached += field.weight
    if (problem === null) hits.push(`${field.path}: ${scoredText(given)}`)
    else misses.push(`${field.path}: ${problem}`)
  }
  const share = possible === 0 ? 0 : roundScore(reached / possible)
  const score = aggregation === 'all_or_nothing' && misses.length > 0 ? 0 : share
  if (possible === 0 && misses.length === 0) misses.push('No field could be compared')
  return { score, hits, misses }
}

function problemOf(field: FieldMatch, wanted: unknown, given: unknown): string | null {
  if (wanted === undefined) return 'the expected data has no such field'
  if (given === undefined) return `expected ${scoredText(wanted)}, the answer has no such field`
  if (fits(field, wanted, given)) return null
  return `expected ${scoredText(wanted)}, got ${scoredText(given)}`
}

function fits(
  { match, tolerance, relative }: FieldMatch,
  wanted: unknown,
  given: unknown,
): boolean {
  if (match === 'date') {
    const day = dayOf(wanted)
    return day !== null && day === dayOf(given)
  }
  if (match === 'exact') return isEqual(wanted, given)
  const [one, other] = [numberOf(wanted), numberOf(given)]
  if (one === null || other === null) return false
  // A cent of tolerance must not fail on the last bit of 0.1 + 0.2.
  const allowed = relative ? tolerance * Math.abs(one) : tolerance
  return Math.abs(one - other) <= allowed + 1e-9 * Math.max(1, Math.abs(one))
}

function numberOf(given: unknown): number | null {
  if (typeof given === 'number') return given
  return typeof given === 'string' && /^\s*-?\d+(\.\d+)?(e[+-]?\d+)?\s*$/i.test(given)
    ? Number(given)
    : null
}

const months = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec']

/** `2026-03-09`, with or without a time, and `9 Mar 2026` or `09-MAR-2026`. `3/9/2026` is two days: none. */
function dayOf(given: unknown): string | null {
  if (typeof given !== 'string') return null
  const iso = /^(\d{4})-(\d{2})-(\d{2})(?:[T ].*)?$/.exec(given.trim())
  if (iso) return dayIfReal(Number(iso[1]), Number(iso[2]), Number(iso[3]))
  const words = /^(\d{1,2})[- ]([a-z]{3})[a-z]*[- ,]+(\d{4})$/i.exec(given.trim())
  const month = months.indexOf(words?.[2]?.toLowerCase() ?? '') + 1
  return words && month > 0 ? dayIfReal(Number(words[3]), month, Number(words[1])) : null
}

function dayIfReal(year: number, month: number, day: number): string | null {
  const date = new Date(Date.UTC(year, month - 1, day))
  return date.getUTCMonth() === month - 1 && date.getUTCDate() === day
    ? date.toISOString().slice(0, 10)
    : null
}

/** `lines[0].amount`; a name in brackets may have dots: `["a.b"]`. */
function at(given: unknown, path: string): unknown {
  const keys = [...path.matchAll(/\[(\d+)\]|\["([^"]*)"\]|([^.[\]]+)/g)].map(
    ([, index, quoted, name]) => index ?? quoted ?? name ?? '',
  )
  return keys.reduce<unknown>(
    (value, key) =>
      typeof value === 'object' && value !== null && Object.hasOwn(value, key)
        ? (value as Record<string, unknown>)[key]
        : undefined,
    given,
  )
}
