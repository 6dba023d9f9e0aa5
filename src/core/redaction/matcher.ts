/**
 * Finds many literals in one pass (Aho-Corasick). A state stands for the longest prefix of any literal that the text
 * read so far ends with, so its depth is exactly what a stream must hold back.
 */
export class Matcher {
  readonly #child: number[] = [0]
  readonly #sibling: number[] = [0]
  readonly #code: number[] = [0]
  readonly #fail: number[] = [0]
  readonly #fromRoot = new Int32Array(128)
  /** Per state: its length. */
  readonly depth: number[] = [0]
  /** Per state: the longest literal that ends here, as its index; -1: none. */
  readonly found: number[] = [-1]

  constructor(literals: readonly string[]) {
    literals.forEach((literal, index) => this.#add(literal, index))
    this.#link()
  }

  next(from: number, code: number): number {
    let state = from
    while (state !== 0) {
      const child = this.#childOf(state, code)
      if (child !== 0) return child
      state = this.#fail[state] ?? 0
    }
    return code < 128 ? (this.#fromRoot[code] ?? 0) : this.#childOf(0, code)
  }

  #add(literal: string, index: number): void {
    let state = 0
    for (let at = 0; at < literal.length; at++) {
      const code = literal.charCodeAt(at)
      state = this.#childOf(state, code) || this.#grow(state, code)
    }
    if (state !== 0 && this.found[state] === -1) this.found[state] = index
  }

  #grow(parent: number, code: number): number {
    const state = this.#code.length
    this.#code.push(code)
    this.#child.push(0)
    this.#sibling.push(this.#child[parent] ?? 0)
    this.#child[parent] = state
    this.#fail.push(0)
    this.depth.push((this.depth[parent] ?? 0) + 1)
    this.found.push(-1)
    if (parent === 0 && code < 128) this.#fromRoot[code] = state
    return state
  }

  #childOf(state: number, code: number): number {
    let child = this.#child[state] ?? 0
    while (child !== 0 && this.#code[child] !== code) child = this.#sibling[child] ?? 0
    return child
  }

  /** Breadth first: the fall-back of a state is shorter than the state, so it is linked before. */
  #link(): void {
    const queue = [0]
    for (const parent of queue) {
      for (let state = this.#child[parent] ?? 0; state !== 0; state = this.#sibling[state] ?? 0) {
        queue.push(state)
        if (parent !== 0) this.#fail[state] = this.next(this.#fail[parent] ?? 0, this.#code[state] ?? 0)
        if (this.found[state] === -1) this.found[state] = this.found[this.#fail[state] ?? 0] ?? -1
      }
    }
  }
}
