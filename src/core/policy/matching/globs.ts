import { expandHomePath, isWithin } from './paths.ts'
import { matchesText, type TextGlob, textGlob, globWithoutBrackets } from './text-globs.ts'

/** Groups of folder names, with any number of folders between two groups. */
export interface PathGlob {
  from: 'workspace' | 'root' | 'home'
  groups: readonly (readonly TextGlob[])[]
  /** Folder by folder, as it is written. */
  parts: readonly string[]
}

export function pathGlob(pattern: string): PathGlob {
  const from = pattern.startsWith('/') ? 'root' : /^~(?:\/|$)/.test(pattern) ? 'home' : 'workspace'
  const text = pattern.endsWith('/') ? `${pattern}**` : pattern
  const parts = (from === 'home' ? text.slice(1) : text).split('/')
  const groups: TextGlob[][] = [[]]
  for (const part of parts) {
    if (part === '**') groups.push([])
    else if (part !== '' && part !== '.') groups.at(-1)?.push(textGlob(part))
  }
  return { from, groups, parts: parts.filter((part) => part !== '' && part !== '.') }
}

interface Places {
  workspaceRoot: string
  home?: string | undefined
}

const folderOf = ({ from }: PathGlob, places: Places): string =>
  from === 'root' ? '/' : from === 'home' ? expandHomePath('~', places.home) : places.workspaceRoot

const partsOf = (path: string): string[] => path.split('/').filter((part) => part !== '')

/** Whether a file that fits a shell's pattern (`src/*`, `[a-c]?`) may fit the glob as well. */
export function mayMatchPathGlob(glob: PathGlob, pattern: string, places: Places): boolean {
  const rule = [...partsOf(folderOf(glob, places)), ...glob.parts]
  const parts = partsOf(globWithoutBrackets(pattern))
  return overlap(rule, parts, '**', (one, other) =>
    overlap(one.split(''), other.split(''), '*', (a, b) => a === b || a === '?' || b === '?'),
  )
}

/** Whether two lists with a sign for "any number of anything" can stand for the same. Time grows with their product. */
function overlap(
  one: readonly string[],
  other: readonly string[],
  many: string,
  fits: (a: string, b: string) => boolean,
): boolean {
  // reached[j]: the first items of `one` so far and the first j of `other` can be the same.
  let reached = Array.from({ length: other.length + 1 }, (_, j) =>
    other.slice(0, j).every((item) => item === many),
  )
  for (const item of one) {
    const next = Array<boolean>(other.length + 1).fill(false)
    next[0] = item === many && reached[0] === true
    for (const [j, each] of other.entries()) {
      const skips = (item === many && (next[j] || reached[j + 1])) || (each === many && next[j])
      const spans = each === many && (reached[j + 1] || reached[j])
      next[j + 1] = Boolean(
        skips || spans || (reached[j] && item !== many && each !== many && fits(item, each)),
      )
    }
    reached = next
  }
  return reached[other.length] ?? false
}

export function matchesPathGlob(glob: PathGlob, path: string, places: Places): boolean {
  const folder = folderOf(glob, places)
  if (!isWithin(path, folder)) return false
  const rest = path.slice(folder === '/' ? 1 : folder.length + 1)
  return matchesParts(glob.groups, rest === '' ? [] : rest.split('/'))
}

function matchesParts(groups: PathGlob['groups'], parts: readonly string[]): boolean {
  const first = groups[0] ?? []
  const last = groups.at(-1) ?? []
  const fits = (group: readonly TextGlob[], at: number) =>
    group.every((glob, index) => matchesText(glob, parts[at + index] ?? '/'))
  if (groups.length === 1) return parts.length === first.length && fits(first, 0)
  const end = parts.length - last.length
  if (end < first.length || !fits(first, 0) || !fits(last, end)) return false
  let from = first.length
  for (const group of groups.slice(1, -1)) {
    while (from + group.length <= end && !fits(group, from)) from += 1
    if (from + group.length > end) return false
    from += group.length
  }
  return true
}
