import type { Comparison, EvalSide, GateDecision } from '../../../contract/eval-compare.ts'
import type { ResultRow } from '../../../contract/eval-result.ts'

/** What a report is about: the results of one or several targets, and a comparison and a decision if there are any. */
export interface Report {
  dataset: string
  sides: readonly EvalSide[]
  comparison?: Comparison | null
  gate?: GateDecision | null
}

/** One planned attempt; without a row it has failed. */
export interface Attempt {
  id: string
  attempt: number
  repetitions: number
  row: ResultRow | null
}

export function reportAttempts({ cases, rows, target }: EvalSide): Attempt[] {
  const byAttempt = new Map<string, ResultRow>()
  for (const row of rows) {
    const key = `${row.attempt} ${row.eval_id}`
    if (row.target === target && !byAttempt.has(key)) byAttempt.set(key, row)
  }
  return cases.flatMap(({ id, repetitions }) =>
    Array.from({ length: repetitions }, (_, attempt) => ({
      id,
      attempt,
      repetitions,
      row: byAttempt.get(`${attempt} ${id}`) ?? null,
    })),
  )
}

/** A run may be of a part of its suite: then "every attempt passed" does not say that the suite did. */
export const reportLeftOut = ({ target, leftOut }: EvalSide): string[] =>
  leftOut.length === 0 ? [] : [`Not run with ${target}: ${leftOut.length} of the suite's cases.`]

/** People count from 1. */
export const reportName = ({ id, attempt, repetitions }: Attempt): string =>
  repetitions === 1 ? id : `${id} (${attempt + 1} of ${repetitions})`

/** Why it is not passed; null if it is. */
export function reportFailure({
  row,
}: Attempt): { kind: 'error' | 'failure'; message: string } | null {
  if (row === null) return { kind: 'error', message: 'There is no result' }
  if (row.error !== undefined) return { kind: 'error', message: row.error }
  if (row.verdict === 'pass') return null
  return { kind: 'failure', message: `Score ${row.score}: ${row.verdict}` }
}

type Compared = Extract<Comparison, { comparable: true }>

/** A sentence for people on what a comparison has shown. */
export function reportVerdict(comparison: Comparison): string {
  if (!comparison.comparable) return `Not compared. ${comparison.reason}.`
  const { score, passes } = comparison
  const words = {
    better: 'The candidate is shown to be better.',
    worse: 'The candidate is shown to be worse.',
    no_difference_shown: 'No difference is shown.',
    inconclusive: 'There are too few cases to say anything.',
  } as const
  const { interval } = score
  const range =
    interval === null
      ? ''
      : `, ${interval.confidence * 100} % interval ${signed(interval.low)} to ${signed(interval.high)}`
  return `${words[score.verdict]} Scores differ by ${signed(score.difference)}${range}; ${score.wins} won, ${score.ties} tied, ${score.losses} lost. Only the baseline passed ${passes.onlyBaseline}, only the candidate ${passes.onlyCandidate} (p = ${passes.pValue.toFixed(3)}).${unpaired(comparison)}`
}

function unpaired({ onlyBaseline, onlyCandidate }: Compared): string {
  const parts = [
    ...(onlyBaseline.length > 0 ? [`${onlyBaseline.length} that only the baseline ran`] : []),
    ...(onlyCandidate.length > 0 ? [`${onlyCandidate.length} that only the candidate ran`] : []),
  ]
  return parts.length === 0 ? '' : ` Cases that were not compared: ${parts.join(', ')}.`
}

export const signed = (value: number): string => `${value > 0 ? '+' : ''}${value.toFixed(3)}`

export const percent = (part: number, whole: number): string =>
  whole === 0 ? '–' : `${Math.round((part / whole) * 1000) / 10} %`

/** What turns text around without being seen is shown as \u202e, so that nobody reads another number or name. */
export const reportText = (given: string): string =>
  given.replaceAll(
    /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )

/** Result rows as they are: one line each. */
export const renderJsonlReport = (rows: readonly ResultRow[]): string =>
  rows.map((row) => `${JSON.stringify(row)}\n`).join('')
