import { readPattern, type ReadPattern } from '../../abilities/patterns.ts'
import type { EvalFile } from '../../../contract/eval-suite.ts'

/** Making the program of a pattern takes time that grows with its length. */
const maxPatternsLength = 32 * 1024

/**
 * The files that were given, by path, while they are read. Nothing else can be read: a path out of the folder leads
 * nowhere. Patterns are read once each, and only so many.
 */
export class Folder {
  readonly #patterns = new Map<string, ReadPattern>()
  #patternsLength = 0
  readonly #files: ReadonlyMap<string, string>

  constructor(files: readonly EvalFile[]) {
    this.#files = new Map(files.map(({ path, content }) => [normal(path), content]))
  }

  /** As it is named in the file `from`: `file://` before it says only that it is a path. */
  find(from: string, named: string): { path: string; text: string } | null {
    const relative = named.replace(/^file:\/\//, '')
    const folder = normal(from).split('/').slice(0, -1).join('/')
    const path = relative.startsWith('/') ? normal(relative) : normal(`${folder}/${relative}`)
    const text = this.#files.get(path)
    return text === undefined ? null : { path, text }
  }

  pattern(source: string): ReadPattern {
    const known = this.#patterns.get(source)
    if (known !== undefined) return known
    this.#patternsLength += source.length
    if (this.#patternsLength > maxPatternsLength)
      return { problem: `All patterns together must have at most ${maxPatternsLength} characters` }
    const read = readPattern(source)
    this.#patterns.set(source, read)
    return read
  }

  text(path: string): string | null {
    return this.#files.get(normal(path)) ?? null
  }
}

function normal(path: string): string {
  const parts: string[] = []
  for (const part of path.replaceAll('\\', '/').split('/')) {
    if (part === '..') parts.pop()
    else if (part !== '' && part !== '.') parts.push(part)
  }
  return parts.join('/')
}
