import { setTimeout as sleep } from 'node:timers/promises'
import type { Stack } from '../../local/stack/stack.ts'
import type { Supervised } from '../../local/processes/supervise.ts'
import type { Caught, CrashServer } from './crash-server.ts'
import { type Cell, matrix, type Strike, type Victim } from './plan.ts'
import type { Random } from './random.ts'

/** The workload reaches every point far more often than this. */
const trapMs = 10_000

/** Of few, which are rare, the first hit is taken. */
const manyCells = 10

/** Carries out the plan: one strike after the other, each followed by the restart of what was killed. */
export class Killer {
  kills = 0
  calmSince: number | null = null
  /** Strikes by point and victim; `any time` for those without a point. */
  readonly struck = new Map<string, number>()
  readonly #stack: Stack
  readonly #crashes: CrashServer
  readonly #random: Random
  #back: Promise<void> = Promise.resolve()
  #restartMs = 0

  constructor(stack: Stack, crashes: CrashServer, random: Random) {
    this.#stack = stack
    this.#crashes = crashes
    this.#random = random
  }

  /** Resolves once the control plane is up again. */
  up = (): Promise<void> => this.#back

  get missing(): Cell[] {
    return matrix.filter((cell) => !this.struck.has(nameOf(cell)))
  }

  /** What was struck, or null if nobody came by. */
  async strike(strike: Strike): Promise<string | null> {
    if (strike.at === 'time') {
      // On a slow machine more time is left between two kills, or nothing would ever be finished.
      await sleep(strike.waitMs + Math.min(300, this.#restartMs * 0.5))
      return this.#kill('any time', strike.victim, null)
    }
    const wanted = this.#leastStruck()
    const points = wanted.map(({ point }) => point)
    const caught = await this.#crashes.catchNext(
      points,
      wanted.length > manyCells ? strike.skip : 0,
      trapMs,
    )
    const cell = caught && this.#random.pick(wanted.filter(({ point }) => point === caught.point))
    return cell && this.#kill(cell.point, cell.victim, caught)
  }

  /** Rare points are not waited for in each round: being a little ahead of them is enough. */
  #leastStruck(): Cell[] {
    if (this.missing.length > 0) return this.missing
    const strikes = (cell: Cell) => this.struck.get(nameOf(cell)) ?? 0
    const least = Math.min(...matrix.map(strikes))
    return matrix.filter((cell) => strikes(cell) <= least + 1)
  }

  async #kill(where: string, victim: Victim, caught: Caught | null): Promise<string> {
    const { worker, sqld } = this.#stack
    const parts = { worker: [worker], sqld: [sqld], both: [worker, sqld] }[victim]
    const name = `${where} ${victim}`
    this.struck.set(name, (this.struck.get(name) ?? 0) + 1)
    this.kills += parts.length
    const back = Promise.all(parts.map((part) => this.#killAndStart(part)))
    if (victim !== 'sqld') this.#back = back.then(() => undefined)
    // A dead libSQL is met by whoever was about to write: that one goes on before or after its return.
    else if (this.#random.chance(0.5)) caught?.release()
    await back
    caught?.release()
    return name
  }

  async #killAndStart(part: Supervised): Promise<void> {
    const startedAt = Date.now()
    part.kill('SIGKILL')
    // libSQL stays away for a moment, so that others notice.
    if (part.name === this.#stack.sqld.name) await sleep(this.#random.below(150))
    await part.start()
    this.#restartMs = Date.now() - startedAt
  }
}

export const nameOf = ({ point, victim }: Cell) => `${point} ${victim}`
