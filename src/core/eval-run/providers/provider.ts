import type { EvaluatorAnswer, EvaluatorRequest } from '../../../contract/eval-request.ts'
import type { ProviderResponse } from '../../../contract/eval-response.ts'
import type { EvalCase } from '../../../contract/eval-suite.ts'
import type { Target } from '../../../contract/eval-target.ts'
import type { AttemptRow } from '../record/attempts.ts'
import type { EvalRunRecord } from '../record/record.ts'

/** One attempt, as the provider of its target sees it. */
export interface Given<T extends Target = Target> {
  run: EvalRunRecord
  target: T
  evalCase: EvalCase
  attempt: AttemptRow
}

/** How far it is. `later`: to be asked again at that time. */
export type Progress =
  | { kind: 'answered'; response: ProviderResponse }
  | { kind: 'failed'; error: string; isTimeout: boolean }
  | { kind: 'later'; at: number }

/**
 * Who carries out the attempts of one kind of target. Everything may be asked again after a crash, and whatever was begun
 * is then found again: by the ids that it has kept in the attempt's row, and by keys made of run, number and try.
 */
export interface Provider<T extends Target = Target> {
  /** Does the next step, and says how far the attempt is. Throws if it cannot be known now. */
  work(given: Given<T>): Promise<Progress>
  /** What an evaluator must know of the attempt's sandbox. Absent: it has none. */
  find?(given: Given<T>, request: EvaluatorRequest): Promise<EvaluatorAnswer | 'later'>
  /** It is over before its time. Repeatable. */
  abort?(given: Given<T>, reason: string): Promise<void>
  /** What it has used. */
  spentMicros?(given: Given<T>): Promise<number>
  /** Where it works: results call it `$WORKSPACE`. */
  workspace?(given: Given<T>): Promise<string | null>
}
