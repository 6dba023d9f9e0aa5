// Which files a tool part touches, by one key that collector and engine share. A path that cannot be named safely has none.

import type { EvidencePart } from './evidence.ts'
import { patchHeadingNames } from './patch-headings.ts'

export const mutatingTools = ['write', 'edit', 'apply_patch'] as const
export type MutatingTool = (typeof mutatingTools)[number]
export const isMutatingTool = (tool: string): tool is MutatingTool =>
  (mutatingTools as readonly string[]).includes(tool)

export interface Place {
  worktree: string
  /** The folder in which OpenCode runs: relative names are meant from here. */
  directory: string
}

const drive = /^[A-Za-z]:[\\/]/
const control = /\p{Cc}/u

/** Relative to the worktree and with "/", or null if it is outside, is the root itself, or could be read in two ways. */
export function evidencePathOf(place: Place, filePath: string): string | null {
  const windows = drive.test(place.worktree)
  // On POSIX a backslash is part of a name: turning it into a separator would name another file.
  if (filePath === '' || control.test(filePath) || !filePath.isWellFormed()) return null
  if (!windows && filePath.includes('\\')) return null
  const plain = (text: string) => (windows ? text.replaceAll('\\', '/') : text)
  const named = plain(filePath)
  if (named.startsWith('//')) return null
  const isAbsolute = named.startsWith('/') || /^[A-Za-z]:/.test(named)
  if (isAbsolute && windows !== drive.test(filePath)) return null
  const whole = isAbsolute ? named : `${plain(place.directory)}/${named}`
  return below(segments(plain(place.worktree)), segments(whole), windows)
}

function segments(path: string): string[] | null {
  const parts = path.split('/').filter((part) => part !== '' && part !== '.')
  return parts.includes('..') ? null : parts
}

function below(root: string[] | null, parts: string[] | null, windows: boolean): string | null {
  if (!root || !parts || parts.length <= root.length) return null
  const same = (a: string, b: string | undefined) =>
    windows ? a.toLowerCase() === b?.toLowerCase() : a === b
  return root.every((part, at) => same(part, parts[at])) ? parts.slice(root.length).join('/') : null
}

/** The names as the tool was given them. */
export function namedEvidencePaths({ tool, input, metadata }: EvidencePart): string[] {
  if (tool === 'apply_patch') {
    if (metadata.files) return [...new Set(metadata.files.map(({ filePath }) => filePath))]
    return typeof input?.['patchText'] === 'string'
      ? [...new Set(patchHeadingNames(input['patchText']))]
      : []
  }
  const named = isMutatingTool(tool) ? input?.['filePath'] : undefined
  return typeof named === 'string' ? [named] : []
}

export function touchedEvidencePaths(place: Place, part: EvidencePart): string[] {
  const paths = namedEvidencePaths(part).map((named) => evidencePathOf(place, named))
  return [...new Set(paths.filter((path) => path !== null))]
}

/** Its input alone tells both sides: there was no file, and this is the text. Not if a formatter may have changed it. */
export const isWholeCreate = (
  { tool, input, inputTruncated, metadata }: EvidencePart,
  formatted: readonly string[] | null,
): boolean =>
  tool === 'write' &&
  metadata.exists === false &&
  metadata.truncated !== true &&
  !inputTruncated &&
  typeof input?.['content'] === 'string' &&
  typeof input['filePath'] === 'string' &&
  !mayBeFormatted(input['filePath'], formatted)

const mayBeFormatted = (path: string, formatted: readonly string[] | null): boolean =>
  formatted === null || formatted.some((ending) => path.endsWith(ending))

/** What must be read of a window: the paths of its completed parts, but not those that need no snapshot. */
export function unresolvedEvidencePaths(
  place: Place,
  parts: readonly EvidencePart[],
  formatted: readonly string[] | null,
): string[] {
  const completed = parts.filter(({ status }) => status === 'completed')
  const needed = completed.filter((part) => !isWholeCreate(part, formatted))
  return [...new Set(needed.flatMap((part) => touchedEvidencePaths(place, part)))]
}
