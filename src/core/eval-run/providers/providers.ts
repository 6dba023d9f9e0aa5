import type { Target } from '../../../contract/eval-target.ts'
import type { EvalRunKernel } from '../record/kernel.ts'
import { Opencode } from './opencode.ts'
import type { Provider } from './provider.ts'
import { replay } from './replay.ts'

/** Who carries out the attempts of which kind of target. */
export class Providers {
  readonly #byKind: Record<Target['provider'], Provider>

  constructor(kernel: EvalRunKernel) {
    this.#byKind = {
      replay: replay as Provider,
      opencode: new Opencode(kernel) as Provider,
      cli: replay as Provider,
      http: replay as Provider,
    }
  }

  of({ provider }: Target): Provider {
    return this.#byKind[provider]
  }
}
