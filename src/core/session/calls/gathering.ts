/** After one that nobody has joined, so many go straight on. */
const straightOn = 32

/**
 * Lets calls that arrive together go on together. A host that commits once per turn then commits once for all of them: on
 * Workers the commit is the dearest part of a call. Whoever comes alone does not wait, except now and then, to find out
 * whether there are others by now. Every call joins before it begins.
 */
export class Gathering {
  readonly #gather: (() => Promise<void>) | undefined
  #underWay: Promise<void> | null = null
  #joined = 0
  #straightOn = 0

  /** `gather`: until whatever has reached this object is here. Undefined where a turn is not a commit. */
  constructor(gather: (() => Promise<void>) | undefined) {
    this.#gather = gather
  }

  /** Undefined: nobody to wait for. */
  join(): Promise<void> | undefined {
    if (this.#gather === undefined || this.#mayGoOn()) return undefined
    this.#joined += 1
    this.#underWay ??= this.#gather().finally(() => this.#end())
    return this.#underWay
  }

  #mayGoOn(): boolean {
    if (this.#straightOn === 0) return false
    this.#straightOn -= 1
    return true
  }

  #end(): void {
    if (this.#joined === 1) this.#straightOn = straightOn
    this.#joined = 0
    this.#underWay = null
  }
}
