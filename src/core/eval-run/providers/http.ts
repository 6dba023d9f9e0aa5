import type { HttpTarget } from '../../../contract/eval-target.ts'
import type { EvalRunKernel } from '../record/kernel.ts'
import type { ModelCalls } from './model-calls.ts'
import { providerPrompt } from './prompt.ts'
import type { Given, Progress, Provider } from './provider.ts'

const againMs = 250

/**
 * An attempt as one question to a model of the model proxy. It has no sandbox. What a call can cost is charged
 * before it is made, so a death in the middle never makes a call free. `Providers` hands it the attempts of `http` targets.
 */
export class Http implements Provider<HttpTarget> {
  readonly #kernel: EvalRunKernel
  readonly #calls: ModelCalls

  constructor(kernel: EvalRunKernel, calls: ModelCalls) {
    this.#kernel = kernel
    this.#calls = calls
  }

  async work(given: Given<HttpTarget>): Promise<Progress> {
    const { target, evalCase, attempt } = given
    const { now } = this.#kernel.ports
    const asked = { system: target.systemPrompt ?? null, prompt: providerPrompt(evalCase) }
    const answer = await this.#calls.look(given, 'target', target, asked, 0)
    if (answer === 'later') return { kind: 'later', at: now() + againMs }
    if (answer.kind === 'failed')
      return { kind: 'failed', error: answer.error, isTimeout: answer.isTimeout }
    return {
      kind: 'answered',
      response: {
        outputMessages: [{ role: 'assistant', content: answer.text }],
        tokenUsage: answer.tokens,
        costUsd: answer.costMicros / 1_000_000,
        durationMs: Math.max(0, now() - (attempt.started_at ?? now())),
      },
    }
  }
}
