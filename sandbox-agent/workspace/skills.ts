// Skills whose text is a file of the workspace. Each is read before OpenCode runs for the first time in this sandbox, name by
// name against open folders, so that no symlink leads out. What was found is kept in the agent's own folder: a later start
// writes the same, whatever the file has become. The supervisor takes them before it applies the manifest.

import { createHash } from 'node:crypto'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import type { Manifest, ManifestFile } from '../../src/contract/manifest.ts'
import {
  isUnsafeSkillPath,
  type SkillRead,
  withoutFrontMatter,
  type WorkspaceSkill,
} from '../../src/contract/workspace-skill.ts'
import { log, messageOf } from '../log.ts'
import { Folder } from './folder.ts'

export interface TakenSkills {
  reads: SkillRead[]
  /** To be written like the manifest's own. */
  files: ManifestFile[]
}

/** All of them together are no more than the registry gives of others. */
const maxTotalBytes = 1024 * 1024

export function takeWorkspaceSkills(
  { layout, workspaceSkills = [] }: Manifest,
  memory: string,
): TakenSkills {
  if (workspaceSkills.length === 0) return { reads: [], files: [] }
  const known = remembered(memory)
  let left = maxTotalBytes
  const reads = workspaceSkills.map((skill): SkillRead => {
    const before = known.find(({ name, path }) => name === skill.name && path === skill.path)
    const read = before ?? readSkill(layout.workspace, skill, left)
    left -= Buffer.byteLength(read.content ?? '')
    return read
  })
  remember(memory, reads)
  return { reads, files: workspaceSkills.flatMap((skill, at) => fileOf(skill, reads[at])) }
}

/** On a full disk they are remembered by the control plane alone. */
function remember(memory: string, reads: SkillRead[]): void {
  try {
    writeFileSync(`${memory}.new`, JSON.stringify(reads), { mode: 0o600 })
    renameSync(`${memory}.new`, memory)
  } catch (error) {
    log('skills.not-written', { reason: messageOf(error) })
  }
}

function remembered(memory: string): SkillRead[] {
  try {
    return JSON.parse(readFileSync(memory, 'utf8')) as SkillRead[]
  } catch {
    return [] // nothing was read yet, or it was not written whole
  }
}

/** Never throws: why there is no text is an answer, too. */
function readSkill(
  workspace: string,
  { name, path, maxBytes }: WorkspaceSkill,
  left: number,
): SkillRead {
  const found = (what: Exclude<SkillRead['found'], 'file'>): SkillRead => ({
    ...{ name, path, found: what, sha256: null },
  })
  if (isUnsafeSkillPath(path)) return found('outside')
  const bytes = readInside(workspace, path.split('/'), Math.min(maxBytes, left))
  if (typeof bytes === 'string') return found(bytes)
  const content = textOf(bytes)
  if (content === null) return found('not_file')
  return { name, path, found: 'file', sha256: sha256(bytes), content }
}

function readInside(
  workspace: string,
  names: string[],
  maxBytes: number,
): Buffer | 'missing' | 'not_file' | 'oversized' | 'outside' {
  let folder = Folder.open(workspace)
  try {
    for (const name of names.slice(0, -1)) {
      const stat = folder.stat(name)
      const next = folder.enter(name)
      if (!next) return !stat || stat.isFile() ? 'missing' : 'outside'
      folder.close()
      folder = next
    }
    const last = names.at(-1) ?? ''
    const stat = folder.stat(last)
    if (!stat) return 'missing'
    if (stat.isSymbolicLink()) return 'outside'
    const content = folder.read(last, { maxBytes })
    return content === 'too large' ? 'oversized' : (content ?? 'not_file')
  } finally {
    folder.close()
  }
}

function textOf(bytes: Buffer): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return null
  }
}

function fileOf({ file, head }: WorkspaceSkill, read: SkillRead | undefined): ManifestFile[] {
  if (read?.content === undefined) return []
  const content = `${head}${withoutFrontMatter(read.content)}\n`
  return [{ path: file, content, sha256: sha256(content), mode: 0o644, keep: 'own' }]
}

const sha256 = (content: string | Buffer): string =>
  createHash('sha256').update(content).digest('hex')
