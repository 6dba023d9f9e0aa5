/**
 * Finds many literals in one pass (Aho-Corasick). A state stands for the longest prefix of any literal that the text
 * read so far ends with, so its depth is exactly what a stream must hold back. The redactor makes one for all secrets of a session.
 */
export class Matcher {
  // One entry per state, in typed arrays: they are read for every character of every text.
  readonly #child: Int32Array
  readonly #sibling: Int32Array
  readonly #code: Uint16Array
  readonly #fail: Int32Array
  readonly #depth: Int32Array
  readonly #found: Int32Array
  readonly #fromRoot = new Int32Array(128)
  #states = 1

  constructor(literals: readonly string[]) {
    const most = literals.reduce((sum, literal) => sum + literal.length, 1)
    this.#child = new Int32Array(most)
    this.#sibling = new Int32Array(most)
    this.#code = new Uint16Array(most)
    this.#fail = new Int32Array(most)
    this.#depth = new Int32Array(most)
    this.#found = new Int32Array(most).fill(-1)
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

  depthAt(state: number): number {
    return this.#depth[state] ?? 0
  }

  /** The longest literal that ends here, as its index; -1: none. */
  foundAt(state: number): number {
    return this.#found[state] ?? -1
  }

  #add(literal: string, index: number): void {
    let state = 0
    for (let at = 0; at < literal.length; at++) {
      const code = literal.charCodeAt(at)
      state = this.#childOf(state, code) || this.#grow(state, code)
    }
    if (state !== 0 && this.#found[state] === -1) this.#found[state] = index
  }

  #grow(parent: number, code: number): number {
    const state = this.#states
    this.#states += 1
    this.#code[state] = code
    this.#sibling[state] = this.#child[parent] ?? 0
    this.#child[parent] = state
    this.#depth[state] = (this.#depth[parent] ?? 0) + 1
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
        const fallback =
          parent === 0 ? 0 : this.next(this.#fail[parent] ?? 0, this.#code[state] ?? 0)
        this.#fail[state] = fallback
        if (this.#found[state] === -1) this.#found[state] = this.#found[fallback] ?? -1
      }
    }
  }
}
