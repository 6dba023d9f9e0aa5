import type { HttpTarget } from '../../../contract/eval-target.ts'
import { findModel } from '../../../contract/models.ts'
import { bytesOf } from '../../hash.ts'
import type { ModelAnswer, ModelQuestion } from '../record/ask-model.ts'
import { loadEvalAttempt } from '../record/attempts.ts'
import type { EvalRunKernel } from '../record/kernel.ts'
import { providerTimeoutError } from './errors.ts'
import type { Given } from './provider.ts'

/** How long one look lasts: well within the lease of a deadline. */
const lookMs = 3000
const usualOutputTokens = 4096
/** Vendors wrap a request in words of their own. */
const wrappingTokens = 1024

/**
 * Model calls of attempts, for `http` targets and for judges. The most that a call can cost is charged to its attempt
 * before it is made, and put right by its answer: if this instance dies meanwhile, what may have been spent stays counted,
 * and the call is made anew. A look waits shortly; the call itself goes on.
 */
export class ModelCalls {
  readonly #kernel: EvalRunKernel
  readonly #open = new Map<string, Promise<ModelAnswer>>()

  constructor(kernel: EvalRunKernel) {
    this.#kernel = kernel
  }

  /** `usedMicros`: what the attempt has used beside its model calls. */
  async look(
    given: Given,
    name: string,
    target: HttpTarget,
    asked: { system: string | null; prompt: string },
    usedMicros: number,
  ): Promise<ModelAnswer | 'later'> {
    const key = `${given.attempt.n}.${given.attempt.attempt} ${name}`
    const known = this.#open.get(key)
    const call = known ?? this.#begin(given, target, asked, usedMicros)
    if ('kind' in call) return call
    this.#open.set(key, call)
    // Nobody may be looking any more: the run is erased, or was given up.
    call.catch(() => undefined)
    const patience = this.#kernel.ports.host.sleep(lookMs).then(() => 'later' as const)
    try {
      const answer = await Promise.race([call, patience])
      if (answer !== 'later') this.#open.delete(key)
      return answer
    } catch (error) {
      this.#open.delete(key)
      throw error
    }
  }

  #begin(
    { run, attempt }: Given,
    target: HttpTarget,
    asked: { system: string | null; prompt: string },
    usedMicros: number,
  ): Promise<ModelAnswer> | ModelAnswer {
    const question: ModelQuestion = {
      ...asked,
      model: target.model,
      temperature: target.temperature,
      maxOutputTokens: target.maxOutputTokens ?? usualOutputTokens,
      timeoutMs: target.timeoutSeconds * 1000,
    }
    const most = mostMicros(question)
    const isLimited = run.budget.moneyUsd !== undefined
    const left = loadEvalAttempt(this.#kernel.ports.sql, attempt.n).reserved_micros - usedMicros
    if (isLimited && most > left) {
      const error = `The run's budget does not allow a call to "${target.model}": it may cost $${most / 1e6}, and $${Math.max(0, left) / 1e6} are left for this attempt`
      return { kind: 'failed', error, isTimeout: false, costMicros: 0 }
    }
    this.#charge(attempt.n, most, isLimited)
    return this.#ask(attempt.n, run.organisationId, target, question, most, isLimited)
  }

  async #ask(
    n: number,
    organisationId: string,
    target: HttpTarget,
    question: ModelQuestion,
    most: number,
    isLimited: boolean,
  ): Promise<ModelAnswer> {
    const answer = await this.#kernel.ports.askModel(organisationId, question)
    this.#charge(n, (answer.costMicros ?? most) - most, isLimited)
    if (answer.kind === 'answered' || !answer.isTimeout) return answer
    return {
      ...answer,
      error: providerTimeoutError(`Model "${target.model}"`, target.timeoutSeconds),
    }
  }

  /** From what is set aside for it to what it has used. What has a result is not touched. */
  #charge(n: number, micros: number, isLimited: boolean): void {
    this.#kernel.commit((sql) =>
      sql.run(
        `update attempts set spent_micros = spent_micros + ?, reserved_micros = max(0, reserved_micros - ?)
         where n = ? and state <> 'done'`,
        micros,
        isLimited ? micros : 0,
        n,
      ),
    )
  }
}

/** No token is shorter than a byte. */
function mostMicros({ model, system, prompt, maxOutputTokens }: ModelQuestion): number {
  const price = findModel(model)?.price
  if (!price) return 0
  const input = bytesOf(`${system ?? ''}${prompt}`).byteLength + wrappingTokens
  return Math.ceil(
    input * Math.max(price.input, price.cacheWrite ?? 0) + maxOutputTokens * price.output,
  )
}
