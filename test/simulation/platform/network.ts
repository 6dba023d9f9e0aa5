import { Process } from './process.ts'

/** One thing that is on its way: a request, an answer, a message of a socket. */
export interface Item {
  what: string
  /** Who asks whom for what. */
  kind?: string
  /** Items of one channel arrive in order. Null: whenever. */
  channel: object | null
  arrive: () => void
  lose: () => void
}

/** What is thrown where the other side did not answer. */
export type Broken = (what: string) => Error

const connectionLost: Broken = (what) => new Error(`Network connection lost: ${what}`)

/**
 * All that is on its way between processes. A step decides what arrives next and what is lost. A request is lost before it
 * has an effect or, as an answer, after it; whoever asked sees the same.
 */
export class Network {
  #items: Item[] = []
  /** Everything that was ever on its way. */
  readonly kinds = new Set<string>()
  /** Beginnings of kinds. Of these nothing arrives: somebody is slow, and all others go on. */
  readonly slow = new Set<string>()

  get size(): number {
    return this.#items.length
  }

  send(item: Item): void {
    if (item.kind !== undefined) this.kinds.add(item.kind)
    this.#items.push(item)
  }

  /** The chosen one of those that can arrive now: of each channel the first. */
  take(choice: number): Item | null {
    const open = this.#open()
    const item = open[choice % Math.max(1, open.length)]
    if (!item) return null
    this.#items.splice(this.#items.indexOf(item), 1)
    return item
  }

  #open(): Item[] {
    const seen = new Set<object>()
    return this.#items.filter(({ channel, kind }) => {
      if (kind !== undefined && this.#isSlow(kind)) return false
      if (channel === null) return true
      const isFirst = !seen.has(channel)
      seen.add(channel)
      return isFirst
    })
  }

  #isSlow(kind: string): boolean {
    for (const beginning of this.slow) if (kind.startsWith(beginning)) return true
    return false
  }

  drop(channel: object): void {
    this.#items = this.#items.filter((item) => item.channel !== channel)
  }

  /** What is on its way now. */
  pending(): string[] {
    return this.#items.flatMap(({ kind }) => kind ?? [])
  }

  /**
   * Asks `to`, which may have to be started first, and waits for its answer. If the one that asks dies it never gets one,
   * and if the other dies the connection breaks.
   */
  call<T>(
    what: string,
    to: () => Process,
    work: () => T | Promise<T>,
    broken: Broken = connectionLost,
  ): Promise<T> {
    const from = Process.current
    const kind = `${from?.name} > ${what}`
    return new Promise<T>((resolve, reject) => {
      const back = (tell: () => void) => () => {
        if (from?.isAlive !== false) tell()
      }
      const fail = back(() => reject(broken(what)))
      const answer = (told: () => void) =>
        this.send({ what: `answer: ${what}`, kind, channel: null, arrive: back(told), lose: fail })
      this.send({
        what,
        kind,
        channel: null,
        lose: fail,
        arrive: () => this.#carryOut(to, work, answer, resolve, reject, fail),
      })
    })
  }

  #carryOut<T>(
    to: () => Process,
    work: () => T | Promise<T>,
    answer: (told: () => void) => void,
    resolve: (value: T) => void,
    reject: (error: unknown) => void,
    fail: () => void,
  ): void {
    let open = true
    const settle = (told: () => void) => {
      if (open) answer(told)
      open = false
    }
    let at: Process
    try {
      at = to()
    } catch (error) {
      return settle(() => reject(error))
    }
    // It may have died over its first commit.
    if (!at.isAlive) return settle(fail)
    at.onDeath(() => settle(fail))
    const whileAlive = (told: () => void) => at.isAlive && settle(told)
    void at.run(async () => {
      try {
        const value = await work()
        whileAlive(() => resolve(value))
      } catch (error) {
        whileAlive(() => reject(error))
      }
    })
  }
}
