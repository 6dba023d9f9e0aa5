import type { ReplayTarget } from '../../../contract/eval-target.ts'
import type { Provider } from './provider.ts'

/** Answers what was recorded, without a sandbox: the n-th repetition gets the n-th answer, later ones the last. */
export const replay: Provider<ReplayTarget> = {
  async work({ target, evalCase, attempt }) {
    // Names of cases are users' words, such as "constructor".
    const isThere = Object.hasOwn(target.responses, evalCase.id)
    const recorded = isThere ? target.responses[evalCase.id] : undefined
    const response = recorded?.[attempt.repetition] ?? recorded?.at(-1)
    if (response) return { kind: 'answered', response }
    const error = `Replay has no recorded answer for case '${evalCase.id}'. Add it to responses of target '${target.name}'.`
    return { kind: 'failed', error, isTimeout: false }
  },
}
