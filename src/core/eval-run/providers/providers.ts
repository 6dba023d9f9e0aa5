import type { Target } from '../../../contract/eval-target.ts'
import type { EvalRunKernel } from '../record/kernel.ts'
import { Cli } from './cli.ts'
import { Http } from './http.ts'
import { ModelCalls } from './model-calls.ts'
import { Opencode } from './opencode.ts'
import type { Provider } from './provider.ts'
import { replay } from './replay.ts'
import { AttemptSandbox } from './sandboxed.ts'

/**
 * Who carries out the attempts of which kind of target: one provider for each. The rooms of attempts and of judging ask it,
 * so that neither knows how a kind works.
 */
export class Providers {
  /** For judges, too. */
  readonly calls: ModelCalls
  readonly #byKind: Record<Target['provider'], Provider>

  constructor(kernel: EvalRunKernel) {
    const sandbox = new AttemptSandbox(kernel)
    this.calls = new ModelCalls(kernel)
    this.#byKind = {
      replay,
      opencode: new Opencode(kernel, sandbox),
      cli: new Cli(kernel, sandbox),
      http: new Http(kernel, this.calls),
    }
  }

  of({ provider }: Target): Provider {
    return this.#byKind[provider]
  }
}
