import { expandHome, isWithin } from './paths.ts'

/**
 * Patterns with `*` (any text) and `?` (one character). The text between two stars is looked for from left to right and
 * never again further left, so a match takes time in proportion to the text, whatever the pattern is.
 */
export type TextGlob = readonly string[]

export const textGlob = (pattern: string): TextGlob => pattern.split('*')

export function matchesText(glob: TextGlob, text: string): boolean {
  const first = glob[0] ?? ''
  const last = glob.at(-1) ?? ''
  if (glob.length === 1) return text.length === first.length && isAt(first, text, 0)
  const end = text.length - last.length
  if (!isAt(first, text, 0) || end < first.length || !isAt(last, text, end)) return false
  let from = first.length
  for (const piece of glob.slice(1, -1)) {
    const found = find(piece, text, from, end)
    if (found < 0) return false
    from = found + piece.length
  }
  return true
}

function isAt(piece: string, text: string, at: number): boolean {
  if (!piece.includes('?')) return text.startsWith(piece, at)
  if (at + piece.length > text.length) return false
  for (let i = 0; i < piece.length; i += 1) {
    if (piece[i] !== '?' && piece[i] !== text[at + i]) return false
  }
  return true
}

function find(piece: string, text: string, from: number, end: number): number {
  if (!piece.includes('?')) {
    const found = text.indexOf(piece, from)
    return found >= 0 && found + piece.length <= end ? found : -1
  }
  for (let at = from; at + piece.length <= end; at += 1) if (isAt(piece, text, at)) return at
  return -1
}

/** "npm *" is also "npm" without arguments. */
export const matchesCommand = (glob: TextGlob, command: string): boolean =>
  matchesText(glob, command) ||
  (glob.length > 1 && glob.at(-1) === '' && (glob.at(-2) ?? '').endsWith(' ')
    ? matchesText(glob, `${command} `)
    : false)

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

export interface Places {
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
