// Takes back what was changed in one file, in the workspace itself: only if the file is exactly what the change left, by
// its hash or by its absence. It looks through open folders, so that no symlink leads it out, and the new text replaces
// the file whole. What is already as it was before the change counts as done. The executor calls it, once per attempt.

import { createHash } from 'node:crypto'
import { evidenceLimits } from '../../src/contract/evidence.ts'
import type { Operation } from '../../src/contract/operation.ts'
import { Folder } from '../workspace/folder.ts'
import type { Outcome } from './run/outcome.ts'
import { pathInRunSite, type Site } from './run/site.ts'

type Revert = NonNullable<Operation['revert']>

const enforced: Outcome['enforced'] = ['real-path', 'output']

/** A file that comes back where nothing is may be executable; one that is there keeps its own mode. */
export function revertFile(
  site: Site,
  { targetPath, content, revert }: Operation,
  executable: boolean,
): Outcome {
  if (targetPath === undefined || revert === undefined)
    throw new Error('Cannot revert: it needs a targetPath and what to expect there')
  const names = pathInRunSite(site.workspace, targetPath).split('/')
  const name = names.pop() as string
  const top = Folder.open(site.workspace)
  try {
    // Only a file that comes back where nothing is may need its folders.
    const make = revert.expect === null ? { owner: site.owner } : undefined
    const folder = descend(top, names, make)
    if (folder === undefined) return withoutFolder(revert, isMissing(top, names))
    try {
      return revertIn(folder, name, { site, revert, executable, content: content ?? '' })
    } finally {
      folder.close()
    }
  } finally {
    top.close()
  }
}

function descend(
  top: Folder,
  names: string[],
  make: Parameters<Folder['descend']>[1],
): Folder | undefined {
  try {
    return top.descend(names, make)
  } catch {
    return undefined
  }
}

/** Whether there is nothing on the way to it, rather than something else. */
function isMissing(top: Folder, names: readonly string[]): boolean {
  for (const [depth, name] of names.entries()) {
    const parent = top.descend(names.slice(0, depth))
    const stat = parent?.stat(name)
    parent?.close()
    if (!stat?.isDirectory()) return parent !== undefined && stat === undefined
  }
  return false
}

function withoutFolder({ restore }: Revert, isGone: boolean): Outcome {
  if (!isGone) return conflict('a folder on the way to it is none any more')
  return restore === null ? applied('It is gone already') : conflict('it was deleted since')
}

interface Wanted {
  site: Site
  revert: Revert
  executable: boolean
  content: string
}

function revertIn(folder: Folder, name: string, wanted: Wanted): Outcome {
  const { site, revert, executable, content } = wanted
  const now = look(folder, name, executable ? 0o755 : 0o644)
  if (typeof now === 'string') return conflict(now)
  const { sha256, mode } = now
  if (sha256 === revert.restore) return applied('It is as it was before already')
  if (sha256 !== revert.expect) return conflict(whyNot(sha256, revert))
  if (revert.restore === null) {
    folder.remove(name)
    return applied('Deleted')
  }
  if (hashOf(Buffer.from(content)) !== revert.restore)
    throw new Error('Cannot revert: the text is not the one of the plan')
  folder.write(name, content, mode, site.owner)
  return applied('Restored')
}

const whyNot = (sha256: string | null, { expect }: Revert): string => {
  if (sha256 === null) return 'it was deleted since'
  return expect === null ? 'there is a file again' : 'it was changed since'
}

/** Its hash, null if there is nothing; or why it is no file that could be compared. */
function look(
  folder: Folder,
  name: string,
  newFileMode: number,
): { sha256: string | null; mode: number } | string {
  const stat = folder.stat(name)
  if (!stat) return { sha256: null, mode: newFileMode }
  if (stat.isSymbolicLink()) return 'it is a symlink now'
  if (!stat.isFile()) return 'it is no file now'
  const content = folder.read(name, { maxBytes: evidenceLimits.bytesPerFile })
  if (content === 'too large') return 'it was changed since'
  return content ? { sha256: hashOf(content), mode: stat.mode & 0o777 } : 'it cannot be read'
}

const hashOf = (content: Buffer): string => createHash('sha256').update(content).digest('hex')

const applied = (output: string): Outcome => ({ output, enforced })
/** The word by which the session knows it from a failure. */
const conflict = (why: string): Outcome => ({ error: `Conflict: ${why}`, enforced })
