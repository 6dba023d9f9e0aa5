import { realpathSync } from 'node:fs'
import { basename, dirname, isAbsolute, join, resolve } from 'node:path'

const pathKeys = new Set(['filePath', 'path', 'workdir', 'file', 'directory'])
const patchedFile = /^\*\*\* (?:Add|Update|Delete) File: (.+)$|^\*\*\* Move to: (.+)$/gm
const maxPaths = 200

/**
 * Where the paths that a tool names really lead: facts for the control plane, which decides. What lies in one of the known
 * folders is named by that folder, since such a folder may itself be reached through a link.
 */
export function realPathsOf(input: unknown, workspace: string, folders: string[]): string[] {
  const real = pathsIn(input).map((path) =>
    nameBy([workspace, ...folders], realPath(isAbsolute(path) ? path : resolve(workspace, path))),
  )
  return [...new Set(real)].filter((path) => path.length <= 4096).slice(0, maxPaths)
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
    return [...value.matchAll(patchedFile)].map((match) => (match[1] ?? match[2] ?? '').trim())
  })
}

/** Of the part that exists; what does not exist yet cannot be a link. */
function realPath(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    const parent = dirname(path)
    return parent === path ? path : join(realPath(parent), basename(path))
  }
}
