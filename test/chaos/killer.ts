import { setTimeout as sleep } from 'node:timers/promises'
import type { Stack } from '../../local/stack.ts'
import type { Supervised } from '../../local/supervise.ts'
import type { CrashServer } from './crash-server.ts'
import { killsOf, type Strike } from './plan.ts'
import type { Random } from './random.ts'

/** A point that the workload does not reach in this time is tried again later. */
const trapMs = 6000

/** Carries out the plan: one strike after the other, each followed by the restart of what was killed. */
export class Killer {
  kills = 0
  /** By point and victim; `any time` for strikes without a point. */
  readonly killsAt = new Map<string, number>()
  readonly missed: Strike[] = []
  readonly #stack: Stack
  readonly #crashes: CrashServer
  readonly #random: Random
  #back: Promise<void> = Promise.resolve()

  constructor(stack: Stack, crashes: CrashServer, random: Random) {
    this.#stack = stack
    this.#crashes = crashes
    this.#random = random
  }

  /** Resolves once the control plane is up again. */
  up = (): Promise<void> => this.#back

  async strike(strike: Strike): Promise<void> {
    if (strike.point === null) {
      await sleep(strike.skip)
      return this.#kill(strike)
    }
    const caught = await this.#crashes.catchNext(strike.point, strike.skip, trapMs)
    if (!caught) {
      this.missed.push(strike)
      return
    }
    // A dead libSQL is met by whoever was about to write: let it go on before or after the restart.
    if (strike.victim === 'sqld' && this.#random.chance(0.5)) {
      setTimeout(() => caught.release(), 5)
    }
    await this.#kill(strike)
    caught.release()
  }

  async #kill(strike: Strike): Promise<void> {
    const { worker, sqld } = this.#stack
    const victims = { worker: [worker], sqld: [sqld], both: [worker, sqld] }[strike.victim]
    const name = `${strike.point ?? 'any time'} ${strike.victim}`
    this.killsAt.set(name, (this.killsAt.get(name) ?? 0) + 1)
    this.kills += killsOf(strike)
    const back = Promise.all(victims.map((victim) => this.#killAndStart(victim)))
    if (strike.victim !== 'sqld') this.#back = back.then(() => undefined)
    await back
  }

  async #killAndStart(victim: Supervised): Promise<void> {
    victim.kill('SIGKILL')
    // libSQL stays away for a moment, so that others notice.
    if (victim === this.#stack.sqld) await sleep(this.#random.below(150))
    await victim.start()
  }
}
