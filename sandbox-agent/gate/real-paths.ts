import { readlinkSync, realpathSync } from 'node:fs'
import { basename, dirname, isAbsolute, join, resolve } from 'node:path'
import { patchHeadingNames } from '../../src/contract/patch-headings.ts'

const pathKeys = new Set(['filePath', 'path', 'workdir', 'file', 'directory'])
const maxPaths = 200
const maxLength = 4096

export interface RealPaths {
  realPaths: string[]
  /** There are more than can be told. */
  shortened: boolean
}

/**
 * Where the paths that a tool names really lead: facts for the control plane, which decides. What lies in one of the known
 * folders is named by that folder, since such a folder may itself be reached through a link.
 */
export function realPathsOf(input: unknown, workspace: string, folders: string[]): RealPaths {
  const real = pathsIn(input).map((path) =>
    nameBy([workspace, ...folders], realPath(isAbsolute(path) ? path : resolve(workspace, path))),
  )
  const all = [...new Set(real)]
  const realPaths = all.filter((path) => path.length <= maxLength).slice(0, maxPaths)
  return { realPaths, shortened: realPaths.length < all.length }
}

function nameBy(folders: string[], real: string): string {
  for (const folder of folders) {
    const root = realPath(folder)
    if (real === root || real.startsWith(`${root}/`)) return folder + real.slice(root.length)
  }
  return real
}

function pathsIn(input: unknown): string[] {
  if (input === null || typeof input !== 'object') return []
  return Object.entries(input).flatMap(([key, value]) => {
    if (typeof value !== 'string') return []
    if (pathKeys.has(key)) return [value]
    if (key !== 'patchText') return []
    return patchHeadingNames(value)
  })
}

const maxLinks = 40

/** Of the part that exists. A link to what does not exist yet leads there all the same. */
function realPath(path: string, links = 0): string {
  try {
    return realpathSync(path)
  } catch {
    const parent = dirname(path)
    if (parent === path) return path
    const named = join(realPath(parent, links), basename(path))
    const target = links < maxLinks ? linkAt(named) : undefined
    return target === undefined ? named : realPath(resolve(dirname(named), target), links + 1)
  }
}

function linkAt(path: string): string | undefined {
  try {
    return readlinkSync(path)
  } catch {
    return undefined // no link, or nothing at all
  }
}
