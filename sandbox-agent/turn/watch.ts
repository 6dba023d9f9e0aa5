// Decides after each look at OpenCode whether a turn goes on, is over, or hangs. It is pure: it adds up the times that
// it is told instead of comparing clocks, because a sandbox that was suspended for an hour has not been quiet for an
// hour. The working turn calls it every few seconds.

import type { turnPatience } from '../../src/contract/turn.ts'
import type { Activity } from '../opencode/transcript.ts'

export type Patience = { readonly [K in keyof typeof turnPatience]: number }

/** After its word that it is idle, the last message gets this long to be finished. */
const settleMs = 3000
/** Idle without ever having begun to answer. */
const neverBeganMs = 15_000

/** What one look at OpenCode has shown. */
export interface Look {
  state: Activity
  /** Since the look before. */
  afterMs: number
  /** Its stream has said anything at all since then: the process runs. */
  heard: boolean
  /** Its stream or the model has said something of this turn since then. */
  moved: boolean
  /** Somebody is asked for consent: that has its own deadline, in the control plane. */
  asking: boolean
  atTool: boolean
  /** The turn was aborted or has failed: no more is to come. */
  stopping: boolean
}

/** hangs: it will not come to an end by itself, and why. */
export type Verdict = 'go on' | 'over' | { hangs: string }

export class Watch {
  readonly #patience: Patience
  #missed = 0
  #silentMs = 0
  #idleMs = 0
  #quietMs = 0

  constructor(patience: Patience) {
    this.#patience = patience
  }

  /** Whether a tool that runs would make a difference. */
  get isQuiet(): boolean {
    return this.#quietMs >= this.#patience.quietMs
  }

  see(look: Look): Verdict {
    if (look.state === 'finished') return 'over'
    if (look.state === 'silent') return this.#seeSilent(look)
    this.#missed = this.#silentMs = 0
    return look.state === 'idle' ? this.#seeIdle(look) : this.#seeBusy(look)
  }

  #seeSilent({ heard, afterMs }: Look): Verdict {
    this.#missed = heard ? 0 : this.#missed + 1
    this.#silentMs = heard ? 0 : this.#silentMs + afterMs
    if (this.#missed < this.#patience.missedProbes) return 'go on'
    return { hangs: `OpenCode has not answered for ${inWords(this.#silentMs)}` }
  }

  #seeIdle({ afterMs, stopping }: Look): Verdict {
    this.#idleMs += afterMs
    return this.#idleMs > (stopping ? settleMs : neverBeganMs) ? 'over' : 'go on'
  }

  #seeBusy({ afterMs, moved, asking, atTool }: Look): Verdict {
    this.#idleMs = 0
    this.#quietMs = moved || asking ? 0 : this.#quietMs + afterMs
    const { quietMs, quietToolMs } = this.#patience
    if (this.#quietMs < (atTool ? quietToolMs : quietMs)) return 'go on'
    const what = atTool ? 'A tool has run without a word' : 'Nothing has moved'
    return { hangs: `${what} for ${inWords(this.#quietMs)}` }
  }
}

const inWords = (ms: number): string =>
  ms < 120_000 ? `${Math.round(ms / 1000)} s` : `${Math.round(ms / 60_000)} minutes`
