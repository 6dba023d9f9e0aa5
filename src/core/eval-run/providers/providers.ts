import type { Target } from '../../../contract/eval-target.ts'
import type { EvalRunKernel } from '../record/kernel.ts'
import { Cli } from './cli.ts'
import { Opencode } from './opencode.ts'
import type { Provider } from './provider.ts'
import { replay } from './replay.ts'
import { AttemptSandbox } from './sandboxed.ts'

/** Who carries out the attempts of which kind of target. */
export class Providers {
  readonly #byKind: Record<Target['provider'], Provider>

  constructor(kernel: EvalRunKernel) {
    const sandbox = new AttemptSandbox(kernel)
    this.#byKind = {
      replay,
      opencode: new Opencode(kernel, sandbox),
      cli: new Cli(kernel, sandbox),
      http: missing,
    }
  }

  of({ provider }: Target): Provider {
    return this.#byKind[provider]
  }
}

const missing: Provider = {
  work: async ({ target }) => ({
    kind: 'failed',
    error: `This release has nobody who runs targets of provider '${target.provider}'.`,
    isTimeout: false,
  }),
}
