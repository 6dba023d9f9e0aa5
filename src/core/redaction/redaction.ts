import { formsOf, minSecretLength } from './forms.ts'
import { Matcher } from './matcher.ts'
import { hideSecretLikeText, SecretLikeStream } from './secret-like.ts'

/**
 * Replaces secret values in everything that is stored or shown. A redactor knows the values of one session in all the
 * forms that forms.ts lists; what it has not been told of, but looks like a key, is the second net (secret-like.ts). It
 * promises that a text gives the same whether it comes whole or in pieces. Sessions make a redactor from their secrets and
 * use it before each write and each event.
 */

export interface KnownSecret {
  name: string
  value: string
}

export interface Redactor {
  /** Replaces every known value by `[secret:NAME]`, also base64-, percent- and JSON-encoded. */
  redactText(text: string): string
  /** All strings in it, keys too. What has nothing to hide is returned as it is. */
  redactJson<T>(value: T): T
  /** For one text that comes in pieces. */
  stream(): DeltaRedactor
}

interface Literals {
  matcher: Matcher
  texts: string[]
  names: string[]
}
interface Search {
  plain: Literals
  wrapped: Literals
}
interface Hit {
  start: number
  end: number
  name: string
  /** Of the longest value in it, whose name it carries. */
  length: number
}

/** Values shorter than six characters are not searched. Build it once per set of secrets and keep it. */
export function createRedactor(secrets: readonly KnownSecret[]): Redactor {
  const searched = secrets.filter(({ value }) => value.length >= minSecretLength)
  if (searched.length === 0) return nothingToHide
  const forms = searched.map(({ name, value }) => ({ name, ...formsOf(value) }))
  const search: Search = {
    plain: toLiterals(forms.map(({ name, plain }) => ({ name, texts: plain }))),
    wrapped: toLiterals(forms.map(({ name, wrapped }) => ({ name, texts: wrapped }))),
  }
  const labels = new Map(searched.map(({ name, value }) => [value, label(name)]))
  const redactText = (text: string) => {
    const stream = new DeltaRedactor(search)
    return stream.push(text) + stream.flush()
  }
  return {
    redactText,
    redactJson: (value) => redactDeep(value, redactText, labels) as typeof value,
    stream: () => new DeltaRedactor(search),
  }
}

/**
 * Gives out a text in pieces, always behind by what might still become a secret value: the pieces together are what
 * `redactText` makes of the whole. One per stream; `flush` gives out the rest at its end.
 */
class DeltaRedactor {
  readonly #search: Search | null
  #held = ''
  #hits: Hit[] = []
  #plain = 0
  #wrapped = 0

  constructor(search: Search | null) {
    this.#search = search
  }

  push(delta: string): string {
    if (!this.#search) return delta
    const from = this.#held.length
    this.#held += delta
    this.#scan(this.#search, from)
    return this.#emit(this.#safeEnd(this.#search))
  }

  flush(): string {
    const rest = this.#emit(this.#held.length)
    this.#plain = 0
    this.#wrapped = 0
    return rest
  }

  /** The hot loop: everything it touches is local. */
  #scan({ plain, wrapped }: Search, from: number): void {
    const text = this.#held
    const { length } = text
    let inPlain = this.#plain
    let inWrapped = this.#wrapped
    for (let at = from; at < length; at++) {
      const code = text.charCodeAt(at)
      inPlain = plain.matcher.next(inPlain, code)
      const hit = plain.matcher.foundAt(inPlain)
      if (hit !== -1) this.#addHit(plain, hit, at + 1 - (plain.texts[hit]?.length ?? 0), at + 1)
      if (isLineEnd(code)) continue
      inWrapped = wrapped.matcher.next(inWrapped, code)
      const wrappedHit = wrapped.matcher.foundAt(inWrapped)
      if (wrappedHit === -1) continue
      const start = this.#startOf(wrapped.texts[wrappedHit]?.length ?? 0, at + 1)
      this.#addHit(wrapped, wrappedHit, start, at + 1)
    }
    this.#plain = inPlain
    this.#wrapped = inWrapped
  }

  /** Values that overlap become one hit, so that no end of the second stays readable. */
  #addHit(literals: Literals, index: number, start: number, end: number): void {
    const hit = { start, end, name: literals.names[index] ?? '', length: end - start }
    for (let last = this.#hits.at(-1); last && hit.start < last.end; last = this.#hits.at(-1)) {
      this.#hits.pop()
      hit.start = Math.min(hit.start, last.start)
      hit.end = Math.max(hit.end, last.end)
      if (last.length > hit.length) Object.assign(hit, { name: last.name, length: last.length })
    }
    this.#hits.push(hit)
  }

  /** Where the last `length` characters before `end` begin, not counting line ends. */
  #startOf(length: number, end: number): number {
    let start = end
    for (let left = length; left > 0; left -= isLineEnd(this.#held.charCodeAt(start)) ? 0 : 1)
      start -= 1
    return start
  }

  /** No value that is still to come can begin before this. */
  #safeEnd({ plain, wrapped }: Search): number {
    const end = this.#held.length
    const plainStart = end - plain.matcher.depthAt(this.#plain)
    return Math.min(plainStart, this.#startOf(wrapped.matcher.depthAt(this.#wrapped), end))
  }

  #emit(safeEnd: number): string {
    const done = this.#hits.filter((hit) => hit.end <= safeEnd)
    this.#hits = this.#hits.slice(done.length)
    const end = Math.min(safeEnd, this.#hits[0]?.start ?? safeEnd)
    let text = ''
    let at = 0
    for (const hit of done) {
      text += this.#held.slice(at, hit.start) + label(hit.name)
      at = hit.end
    }
    text += this.#held.slice(at, end)
    this.#held = this.#held.slice(end)
    for (const hit of this.#hits) {
      hit.start -= end
      hit.end -= end
    }
    return text
  }
}

/** A text in pieces through both nets: first the known values, then what looks like one. */
export class HidingStream {
  readonly #known: DeltaRedactor | null
  readonly #alike = new SecretLikeStream()

  constructor(known: DeltaRedactor | null) {
    this.#known = known
  }

  push(delta: string): string {
    return this.#alike.push(this.#known?.push(delta) ?? delta)
  }

  flush(): string {
    return this.#alike.push(this.#known?.flush() ?? '') + this.#alike.flush()
  }
}

const label = (name: string) => `[secret:${name}]`
const isLineEnd = (code: number) => code === 10 || code === 13

const nothingToHide: Redactor = {
  redactText: (text) => text,
  redactJson: (value) => value,
  stream: () => new DeltaRedactor(null),
}

function toLiterals(forms: { name: string; texts: string[] }[]): Literals {
  const all = forms.flatMap(({ name, texts }) => texts.map((text) => ({ name, text })))
  const texts = all.map((item) => item.text)
  return { matcher: new Matcher(texts), texts, names: all.map((item) => item.name) }
}

/** As `redactJson`, for what looks like a key of a well-known kind: `[secret-like:KIND]`. */
export const hideSecretLike = <T>(value: T): T =>
  redactDeep(value, hideSecretLikeText, new Map()) as T

function redactDeep(
  value: unknown,
  redactText: (text: string) => string,
  labels: ReadonlyMap<string, string>,
): unknown {
  if (typeof value === 'string') return redactText(value)
  // A number is hidden only if it is the whole secret: a time that contains its digits must stay a number.
  if (typeof value === 'number') return labels.get(String(value)) ?? value
  if (value === null || typeof value !== 'object') return value
  if (Array.isArray(value)) {
    const items = value.map((item: unknown) => redactDeep(item, redactText, labels))
    return items.some((item, index) => item !== value[index]) ? items : value
  }
  const before = Object.entries(value)
  const after = before.map(
    ([key, item]) => [redactText(key), redactDeep(item, redactText, labels)] as const,
  )
  const changed = after.some(
    ([key, item], index) => key !== before[index]?.[0] || item !== before[index]?.[1],
  )
  return changed ? Object.fromEntries(after) : value
}
