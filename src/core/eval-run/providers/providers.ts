import type { Target } from '../../../contract/eval-target.ts'
import type { Provider } from './provider.ts'
import { replay } from './replay.ts'

/** Who carries out the attempts of which kind of target. */
export class Providers {
  of({ provider }: Target): Provider {
    return provider === 'replay' ? replay : missing
  }
}

const missing: Provider = {
  work: async ({ target }) => ({
    kind: 'failed',
    error: `This release has nobody who runs targets of provider '${target.provider}'.`,
    isTimeout: false,
  }),
}
