import { byteLength } from '../../../contract/byte-length.ts'
import type { EvaluatorAnswer, EvaluatorRequest } from '../../../contract/eval-request.ts'
import { clearDeadline, setDeadline } from '../../actor/deadlines.ts'
import { scoreRequests } from '../../evals/evaluators/score.ts'
import { responseWithoutRoot } from '../../evals/response/answer.ts'
import { scoredResultRow } from '../../evals/results/rows.ts'
import { loadRecordedEvalTarget } from '../record/record.ts'
import { attemptFindings, loadEvalAttempt, attemptResponse } from '../record/attempts.ts'
import type { Given } from '../providers/provider.ts'
import type { Providers } from '../providers/providers.ts'
import type { EvalRunKernel } from '../record/kernel.ts'
import { endedEvalAttempt, endEvalAttempt } from './ending.ts'

/** How soon it is looked whether a finding is there. */
const againMs = 250
/** All are in one row, which has at most 2 MB. */
const maxFoundBytes = 1536 * 1024
const tooLong = {
  kind: 'failed',
  message: 'With what else was found out it is too long to be kept',
} as const

/**
 * Scores an attempt that has its answer. What an evaluator must know beside it is found out first, one request at a time,
 * and kept in the attempt's row: after a crash nothing is found out twice. Then the result is stored, once.
 */
export class Judging {
  readonly #kernel: EvalRunKernel
  readonly #providers: Providers

  constructor(kernel: EvalRunKernel, providers: Providers) {
    this.#kernel = kernel
    this.#providers = providers
  }

  async judge(given: Given): Promise<void> {
    const { attempt, evalCase, target } = given
    const response = attemptResponse(attempt) ?? { outputMessages: [] }
    const findings = attemptFindings(attempt)
    const provider = this.#providers.of(target)
    for (const request of scoreRequests({ case: evalCase, response })) {
      if (findings.has(request.id)) continue
      const found = await this.#find(given, request)
      if (found === 'later') return this.#lookAgain(attempt.n)
      const root = (await provider.workspace?.(given)) ?? ''
      findings.set(request.id, responseWithoutRoot(found, root))
      const bytes = byteLength(JSON.stringify([...findings]))
      if (bytes > maxFoundBytes) findings.set(request.id, tooLong)
      this.#kernel.commit((sql) =>
        sql.run(
          `update attempts set findings = ? where n = ? and state = 'judging'`,
          JSON.stringify(Object.fromEntries(findings)),
          attempt.n,
        ),
      )
    }
    const spent = (await provider.spentMicros?.(given)) ?? 0
    this.#kernel.commit((sql, now) => {
      clearDeadline(sql, `attempt:${attempt.n}`)
      const row = loadEvalAttempt(sql, attempt.n)
      const answers = Object.fromEntries(findings)
      const result = scoredResultRow(endedEvalAttempt(sql, now, row), response, answers)
      endEvalAttempt(sql, now, row, result, spent)
    })
  }

  #lookAgain(n: number): void {
    this.#kernel.commit((sql, now) => setDeadline(sql, `attempt:${n}`, now + againMs))
  }

  async #find(given: Given, request: EvaluatorRequest): Promise<EvaluatorAnswer | 'later'> {
    const { target } = given
    const provider = this.#providers.of(target)
    if (request.kind === 'model') return this.#ask(given, request)
    if (provider.find) return provider.find(given, request)
    const message = `A target of provider "${target.provider}" has no sandbox to look into`
    return { kind: 'failed', message }
  }

  /** By the judge that the evaluator or the target names: a model, and never the one that is judged. */
  async #ask(
    given: Given,
    { id, target: named, system, prompt }: Extract<EvaluatorRequest, { kind: 'model' }>,
  ): Promise<EvaluatorAnswer | 'later'> {
    const { target } = given
    const name = named ?? target.judgeTarget
    const failed = (message: string) => ({ kind: 'failed' as const, message })
    if (name === undefined)
      return failed(`Target "${target.name}" has no judge: name an http target as judge_target`)
    const judge = loadRecordedEvalTarget(this.#kernel.ports.sql, name)
    if (judge?.provider !== 'http') return failed(`The judge "${name}" is no http target`)
    if (judge.name === target.name) return failed(`Target "${name}" cannot judge itself`)
    const used = (await this.#providers.of(target).spentMicros?.(given)) ?? 0
    const asked = { system, prompt }
    const answer = await this.#providers.calls.look(given, `judge ${id}`, judge, asked, used)
    if (answer === 'later') return 'later'
    if (answer.kind === 'failed') return failed(`The judge "${name}" failed: ${answer.error}`)
    return { kind: 'model', text: answer.text }
  }
}
