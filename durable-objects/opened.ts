import { errorCodeOf } from '../src/contract/error.ts'
import { createPartsLog } from '../src/parts.ts'

const laterMs = 60_000

/** What is over once somebody has deployed again: the newer release, or this one with its variables. */
const passing: readonly unknown[] = ['newer_release', 'not_configured']

/**
 * The actor behind a shell; or the refusal, if a newer release has changed its database for good or variables are missing.
 * The constructor of such an object must not throw: the platform gives up on an alarm that fails a few times, and the next
 * deployment would never see it again. After any other failure it does throw, and the platform makes the object anew.
 */
export class Opened<Actor extends { runDue(): Promise<void> }> {
  readonly #ctx: DurableObjectState
  readonly #actor: Actor | undefined
  readonly refusal: unknown

  constructor(ctx: DurableObjectState, create: () => Actor) {
    this.#ctx = ctx
    try {
      this.#actor = create()
    } catch (error) {
      if (!passing.includes(errorCodeOf(error))) throw error
      // Its own: without variables there are no parts that have one.
      createPartsLog('error')('error', 'Cannot open an object', {
        id: ctx.id.name ?? '',
        error: String(error),
      })
      this.refusal = error
    }
  }

  get actor(): Actor {
    if (this.#actor === undefined) throw this.refusal
    return this.#actor
  }

  /** Throws if the next alarm cannot be armed: the platform then comes back. */
  async alarm(): Promise<void> {
    if (this.#actor === undefined) return this.#ctx.storage.setAlarm(Date.now() + laterMs)
    // Not awaited: a slow provider must not hold up the other deadlines. Each comes back by itself if it is lost.
    this.#ctx.waitUntil(this.#actor.runDue())
  }
}
