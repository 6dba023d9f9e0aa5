// Checks from OpenCode's own stream that no tool ran past the gate: every tool that ran must have been allowed with
// exactly this input. `onBypassed` is called once per part that was not. The working turn feeds it and then aborts the
// turn.

import type { Part } from '../opencode/transcript.ts'
import type { Gate, ToolPart } from '../gate/gate.ts'

/** A tool that runs this long without having asked has got past the gate. */
export const askWithinMs = 10_000

export class ToolCheck {
  readonly #gate: Gate
  readonly #onBypassed: (part: ToolPart) => void
  readonly #isLive: () => boolean
  readonly #reported = new Set<string>()

  /** `isLive`: the turn is running and not being aborted. */
  constructor(gate: Gate, isLive: () => boolean, onBypassed: (part: ToolPart) => void) {
    this.#gate = gate
    this.#isLive = isLive
    this.#onBypassed = onBypassed
  }

  see(part: ToolPart, state: NonNullable<Part['state']>): void {
    if (this.#gate.covers(part)) return
    if (state.status === 'completed') return this.#report(part)
    if (state.status === 'running') {
      // OpenCode says "running" before it calls the hook.
      setTimeout(() => this.#reportUnasked(part), askWithinMs).unref()
    } else if (state.status === 'error' && checkToolRan(state)) {
      this.#reportUnasked(part)
    }
  }

  #reportUnasked(part: ToolPart): void {
    if (this.#isLive() && !this.#gate.wasAsked(part)) this.#report(part)
  }

  #report(part: ToolPart): void {
    if (this.#reported.has(part.partId)) return
    this.#reported.add(part.partId)
    this.#onBypassed(part)
  }
}

// The gate's own refusals and OpenCode's aborts are errors of tools that did not run.
export function checkToolRan(state: NonNullable<Part['state']>): boolean {
  if (state.metadata?.interrupted === true) return false
  return !/^(Gantry refused|Tool execution aborted)/.test(state.error ?? '')
}
