// The hunks between two texts: runs of lines that differ, each with the three lines around it that do not. A hunk is named
// by the hash of its lines and their context, so that it keeps its name while other places of the file change; if two
// hunks of a file would have one name, neither can be told apart, and neither is stable.

import { hashText } from '../../hash.ts'
import { exactLines } from './exact.ts'

export interface TextHunk {
  id: string
  /** Its name is not also another one's. */
  stable: boolean
  /** `first` is counted from 0. */
  before: { first: number; lines: string[] }
  after: { first: number; lines: string[] }
}

const contextLines = 3

export function hunksOf(path: string, before: string, after: string): TextHunk[] {
  const [a, b] = [exactLines(before), exactLines(after)]
  const hunks = mergeClose(runsOf(a, b)).map(({ from, to, first, last }) => {
    const lead = a.slice(Math.max(0, from - contextLines), from)
    const trail = a.slice(to, to + contextLines)
    const [removed, added] = [a.slice(from, to), b.slice(first, last)]
    return {
      id: `hnk_${hashText(JSON.stringify([path, lead, removed, added, trail])).slice(0, 40)}`,
      before: { first: from, lines: removed },
      after: { first, lines: added },
    }
  })
  const seen = new Set<string>()
  const twice = new Set<string>()
  for (const { id } of hunks) (seen.has(id) ? twice : seen).add(id)
  return hunks.map((hunk) => ({ ...hunk, stable: !twice.has(hunk.id) }))
}

/** The text after, with these hunks as they were before. All of them give the text before. */
export function withoutHunks(
  after: string,
  hunks: readonly TextHunk[],
  ids: ReadonlySet<string>,
): string {
  const lines = exactLines(after)
  const pieces: string[][] = []
  let done = 0
  for (const { id, before, after: now } of hunks) {
    if (!ids.has(id)) continue
    pieces.push(lines.slice(done, now.first), before.lines)
    done = now.first + now.lines.length
  }
  return [...pieces, lines.slice(done)].flat().join('')
}

/** Lines `from` to `to` of one text became `first` to `last` of the other. */
interface Run {
  from: number
  to: number
  first: number
  last: number
}

/** Two that do not have a whole context of their own are one. */
function mergeClose(runs: readonly Run[]): Run[] {
  const merged: Run[] = []
  for (const run of runs) {
    const last = merged.at(-1)
    if (last && run.from - last.to < contextLines)
      Object.assign(last, { to: run.to, last: run.last })
    else merged.push({ ...run })
  }
  return merged
}

/** Of more than this many pairs of lines nobody would like to see the difference line by line: they are one run. */
const maxPairs = 4_000_000

function runsOf(a: readonly string[], b: readonly string[]): Run[] {
  const least = Math.min(a.length, b.length)
  let top = 0
  while (top < least && a[top] === b[top]) top += 1
  let end = 0
  while (end < least - top && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1
  const whole = { from: top, to: a.length - end, first: top, last: b.length - end }
  const [rows, columns] = [whole.to - top, whole.last - top]
  if (rows === 0 && columns === 0) return []
  return rows * columns > maxPairs ? [whole] : inside(a, b, whole)
}

/** Between the lines of a longest common subsequence. */
function inside(a: readonly string[], b: readonly string[], { from, to, first, last }: Run): Run[] {
  const common = lengthsOf(a.slice(from, to), b.slice(first, last))
  const width = last - first + 1
  const at = (row: number, column: number) => common[row * width + column] ?? 0
  const runs: Run[] = []
  let [row, column] = [0, 0]
  let open: Run | null = null
  while (row < to - from || column < last - first) {
    const isSame = row < to - from && column < last - first && a[from + row] === b[first + column]
    if (isSame) {
      open = null
      row += 1
      column += 1
      continue
    }
    if (open === null) {
      open = { from: from + row, to: from + row, first: first + column, last: first + column }
      runs.push(open)
    }
    const isRemoved =
      column === last - first || (row < to - from && at(row + 1, column) >= at(row, column + 1))
    if (isRemoved) row += 1
    else column += 1
    open.to = from + row
    open.last = first + column
  }
  return runs
}

/** How long the longest common subsequence is from each pair of lines on. */
function lengthsOf(a: readonly string[], b: readonly string[]): Uint32Array {
  const width = b.length + 1
  const lengths = new Uint32Array((a.length + 1) * width)
  for (let row = a.length - 1; row >= 0; row -= 1)
    for (let column = b.length - 1; column >= 0; column -= 1) {
      const here = row * width + column
      lengths[here] =
        a[row] === b[column]
          ? (lengths[here + width + 1] ?? 0) + 1
          : Math.max(lengths[here + width] ?? 0, lengths[here + 1] ?? 0)
    }
  return lengths
}
