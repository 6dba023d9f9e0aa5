import type { OpencodeTarget } from '../../../contract/eval-target.ts'
import type { EvalRunKernel } from '../record/kernel.ts'
import type { Given, Progress, Provider } from './provider.ts'

export class Opencode implements Provider<OpencodeTarget> {
  readonly #kernel: EvalRunKernel
  constructor(kernel: EvalRunKernel) {
    this.#kernel = kernel
  }
  async work(_given: Given<OpencodeTarget>): Promise<Progress> {
    return { kind: 'failed', error: this.#kernel.instance, isTimeout: false }
  }
}
