// Which lines of a file an agent has provably written, by its proven changes in order. What is not proven is nobody's.

import type { ChangeEvent } from '../../contract/change.ts'
import { isReviewSafe } from '../evidence/safety.ts'
import { exactChangedLines, exactLines } from '../evidence/texts/exact.ts'

export interface Range {
  first: number
  last: number
}
export interface WrittenFile {
  path: string
  /** By the member that wrote them. Empty: a change is known, and no line of it is proven. */
  ranges: Map<string, Range[]>
}

export function authoredFiles(
  events: readonly ChangeEvent[],
  texts: ReadonlyMap<string, string>,
): WrittenFile[] {
  const paths = [...new Set(events.map(({ relativePath }) => relativePath))]
  return paths.map((path) => {
    const own = events.filter(({ relativePath }) => relativePath === path)
    return { path, ranges: rangesOf(authorsOf(own, texts)) }
  })
}

/** Per line who has written it; null: not known. A gap in the chain forgets what was before it. */
function authorsOf(
  events: readonly ChangeEvent[],
  texts: ReadonlyMap<string, string>,
): (string | null)[] {
  let authors: (string | null)[] = []
  let known: string | null = null
  for (const event of events) {
    const after = event.after && texts.get(event.after.sha256)
    const before = event.before ? texts.get(event.before.sha256) : ''
    if (!isReviewSafe(event) || typeof after !== 'string' || before === undefined) {
      authors = []
      known = null
      continue
    }
    const was =
      known === (event.before?.sha256 ?? null) ? authors : exactLines(before).map(() => null)
    const { first, removed, added } = exactChangedLines(before, after)
    const own = Array<string>(added).fill(event.memberName)
    authors = [was.slice(0, first - 1), own, was.slice(first - 1 + removed)].flat()
    known = event.after?.sha256 ?? null
  }
  return authors
}

function rangesOf(authors: readonly (string | null)[]): Map<string, Range[]> {
  const ranges = new Map<string, Range[]>()
  for (const [at, author] of authors.entries()) {
    if (author === null) continue
    const own = ranges.get(author) ?? []
    const last = own.at(-1)
    if (last?.last === at) last.last = at + 1
    else own.push({ first: at + 1, last: at + 1 })
    ranges.set(author, own)
  }
  return ranges
}
