import { expandHome, isWithin } from './paths.ts'
import { matchesText, type TextGlob, textGlob } from './text-globs.ts'

/** Groups of folder names, with any number of folders between two groups. */
export interface PathGlob {
  from: 'workspace' | 'root' | 'home'
  groups: readonly (readonly TextGlob[])[]
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
  return { from, groups }
}

interface Places {
  workspaceRoot: string
  home?: string | undefined
}

export function matchesPath(glob: PathGlob, path: string, places: Places): boolean {
  const folder =
    glob.from === 'root'
      ? '/'
      : glob.from === 'home'
        ? expandHome('~', places.home)
        : places.workspaceRoot
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
