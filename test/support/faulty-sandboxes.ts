import { AppError } from '../../src/contract/error.ts'
import type { SandboxProvider } from '../../src/core/ports.ts'
import type { MemorySandboxes } from './memory-sandboxes.ts'

/** How the line to the provider is at the moment, in parts of a hundred. */
export interface Weather {
  /** The order does not arrive. */
  lost: number
  /** It is carried out, but the answer does not arrive. */
  answerLost: number
  /** It arrives, and its answer takes its time: until `release`, or for ever if its instance dies. */
  slow: number
}
export const fair: Weather = { lost: 0, answerLost: 0, slow: 0 }

/** A provider behind a bad line. What a dead instance has sent may still be carried out; it hears nothing of it. */
export class FaultySandboxes implements SandboxProvider {
  weather: Weather = fair
  snapshotsFail = false
  readonly #real: MemorySandboxes
  readonly #random: (below: number) => number
  #held: { carryOut: () => Promise<unknown>; goOn: () => void }[] = []

  constructor(real: MemorySandboxes, random: (below: number) => number) {
    this.#real = real
    this.#random = random
  }

  layout = () => this.#real.layout()
  create: SandboxProvider['create'] = (spec) => this.#over(() => this.#real.create(spec))
  get: SandboxProvider['get'] = (id, generation) => this.#over(() => this.#real.get(id, generation))
  list: SandboxProvider['list'] = (organisationId) =>
    this.#over(() => this.#real.list(organisationId))
  extend: SandboxProvider['extend'] = (...order) => this.#over(() => this.#real.extend(...order))
  stop: SandboxProvider['stop'] = (id, generation) =>
    this.#over(() => this.#real.stop(id, generation))
  freeze = (id: string, generation: number) => this.#over(() => this.#real.freeze(id, generation))
  check: SandboxProvider['check'] = () => this.#over(() => this.#real.check())
  deleteSnapshot: SandboxProvider['deleteSnapshot'] = (organisationId, id) =>
    this.#over(() => this.#real.deleteSnapshot(organisationId, id))
  snapshot: SandboxProvider['snapshot'] = (input) =>
    this.#over(() => {
      if (this.snapshotsFail) throw new AppError('unprocessable', 'Secret "A" is in "x"')
      return this.#real.snapshot(input)
    })

  /** Everything that was slow gets its answer. */
  release(): void {
    for (const { goOn } of this.#held.splice(0)) goOn()
  }

  /** The instance has died: its orders may have been carried out, or are now, or never. */
  async abandon(): Promise<void> {
    for (const { carryOut } of this.#held.splice(0))
      if (this.#random(2) === 0) await carryOut().catch(() => undefined)
  }

  async #over<T>(carryOut: () => Promise<T>): Promise<T> {
    const { lost, answerLost, slow } = this.weather
    if (this.#random(100) < lost) throw away('The provider is away')
    if (this.#random(100) < slow)
      await new Promise<void>((goOn) => this.#held.push({ carryOut, goOn }))
    const answer = await carryOut()
    if (this.#random(100) < answerLost) throw away('The answer did not arrive')
    return answer
  }
}

const away = (message: string) => new AppError('sandbox_unavailable', message)
