// Secret files of the workspace that nothing has declared are hidden inside: an empty device is mounted over each file,
// an empty folder over each folder, so that not even a search through everything shows them. What git tracks is left
// alone: its content is in the repository for whoever asks git, and its programs may need it.

import { opendirSync } from 'node:fs'
import { join } from 'node:path'
import { namesSecretPath } from '../../src/contract/secret-paths.ts'
import type { Run } from './reader.ts'

export interface Mask {
  path: string
  isFolder: boolean
}

/** Enough for most workspaces; node_modules, which holds none of the user's own, would use it up. */
const maxEntries = 200_000
const maxMasks = 200
const skipped = new Set(['.git', 'node_modules'])

/** By their names, without following a link. */
export function findMasks(workspace: string): Mask[] {
  const found: Mask[] = []
  let left = maxEntries
  const visit = (folder: string) => {
    for (const { name, isFolder, isFile } of entriesOf(folder)) {
      left -= 1
      if (left < 0 || found.length >= maxMasks) return
      const path = join(folder, name)
      if ((isFile || isFolder) && namesSecretPath(path.slice(workspace.length)))
        found.push({ path, isFolder })
      else if (isFolder && !skipped.has(name)) visit(path)
    }
  }
  visit(workspace)
  return found
}

function* entriesOf(
  folder: string,
): Generator<{ name: string; isFolder: boolean; isFile: boolean }> {
  try {
    const opened = opendirSync(folder)
    try {
      for (let entry = opened.readSync(); entry; entry = opened.readSync())
        yield { name: entry.name, isFolder: entry.isDirectory(), isFile: entry.isFile() }
    } finally {
      opened.closeSync()
    }
  } catch {
    // gone meanwhile, or nobody's to read
  }
}

/** Without what git tracks. If git cannot say, all are masked. */
export async function untrackedMasks(
  masks: readonly Mask[],
  workspace: string,
  run: Run,
): Promise<Mask[]> {
  if (masks.length === 0) return []
  const ran = await run('git', ['ls-files', '-z', '--', ...masks.map(({ path }) => path)], {
    folder: workspace,
    environment: { PATH: process.env['PATH'] ?? '/usr/bin:/bin', GIT_LITERAL_PATHSPECS: '1' },
    maxBytes: 1024 * 1024,
    timeoutMs: 5000,
  })
  const tracked = ran.output.toString('utf8').split('\0').slice(0, -1)
  const isTracked = (mask: Mask) =>
    tracked.some((name) => {
      const path = join(workspace, name)
      return path === mask.path || (mask.isFolder && path.startsWith(`${mask.path}/`))
    })
  return masks.filter((mask) => !isTracked(mask))
}
