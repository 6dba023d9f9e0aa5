import { createHash } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import type { EventData } from '../../src/contract/events.ts'
import type { Manifest, ManifestFile } from '../../src/contract/manifest.ts'
import { Folder, type Owner } from './folder.ts'

type Applied = EventData<'manifest.applied'>['files'][number]

export interface ApplyOptions {
  /** Who OpenCode runs as, where it differs from the agent. */
  owner: Owner | undefined
  /** Workspace files that an earlier application wrote. */
  copies: readonly string[]
  first: boolean
}
interface ApplyOutcome {
  files: Applied[]
  copies: string[]
  /** Something that OpenCode may have loaded was not what the manifest says. */
  drifted: boolean
}

/**
 * Makes the sandbox what the manifest says. Done before each start of OpenCode and each turn, so it reports only
 * changes.
 */
export function applyWorkspaceManifest(manifest: Manifest, options: ApplyOptions): ApplyOutcome {
  mkdirSync(manifest.layout.configDir, { recursive: true, mode: 0o755 })
  const located = (path: string) => locate(manifest, path)
  const copies = new Set(options.copies)
  const settings = { ...options, configDir: manifest.layout.configDir }
  const files = manifest.files.map((file): Applied => {
    const action =
      file.keep === 'own'
        ? applyOwn(located, file, settings)
        : applyCopy(located, file, options, copies)
    return { path: file.path, sha256: file.sha256, action }
  })
  const removed = [...removeAbsent(located, manifest), ...removeForeign(manifest)]
  if (copies.size > 0) excludeFromGit(manifest, [...copies], options.owner)
  const all = [...files, ...removed]
  return {
    files: all,
    copies: [...copies],
    drifted: all.some(
      (file) =>
        file.path.startsWith(`${manifest.layout.configDir}/`) &&
        ['repaired', 'removed'].includes(file.action),
    ),
  }
}

/** The files of an eval case, over what is there: they are what its work begins with. */
export function writeWorkspaceFixtures(
  { layout, fixtures = [] }: Manifest,
  owner: Owner | undefined,
): void {
  for (const { path, text } of fixtures) {
    const names = path.split('/')
    if (names.some((name) => ['', '.', '..', '.git'].includes(name)))
      throw new Error(`Cannot write "${path}": it is not inside the workspace`)
    clearTheWay(layout.workspace, names.slice(0, -1))
    inFolder(layout.workspace, names.slice(0, -1), owner, (folder) => {
      const name = names.at(-1) as string
      if (folder.stat(name)?.isDirectory()) folder.remove(name)
      folder.write(name, text, 0o644, owner)
    })
  }
}

interface Location {
  root: string
  folders: string[]
  name: string
}
type Locate = (path: string) => Location

/** Every path of a manifest is inside one of the sandbox's folders, or the manifest is refused. */
function locate(manifest: Manifest, path: string): Location {
  const { configDir, workspace, home } = manifest.layout
  const root = [configDir, workspace, home].find((each) => path.startsWith(`${each}/`))
  const names = root === undefined ? [] : path.slice(root.length + 1).split('/')
  if (root === undefined || names.some((name) => name === '' || name === '.' || name === '..')) {
    throw new Error(`Cannot write "${path}": it is not inside the sandbox's folders`)
  }
  return { root, folders: names.slice(0, -1), name: names.at(-1) as string }
}

function applyOwn(
  located: Locate,
  file: ManifestFile,
  { owner, first, configDir }: ApplyOptions & { configDir: string },
): Applied['action'] {
  const { root, folders, name } = located(file.path)
  clearTheWay(root, folders)
  // OpenCode loads code from there: its folders stay the agent's, or it could replace their files.
  return inFolder(root, folders, root === configDir ? undefined : owner, (folder) => {
    const stat = folder.stat(name)
    if (stat?.isFile() && (stat.mode & 0o777) === file.mode && hasContent(folder, name, file))
      return 'kept'
    if (stat?.isDirectory()) folder.remove(name)
    folder.write(name, file.content, file.mode, undefined)
    return first && !stat ? 'written' : 'repaired'
  })
}

// In its own folders Gantry wins: a symlink or a file where a folder belongs goes.
function clearTheWay(root: string, folders: string[]): void {
  for (let depth = 1; depth <= folders.length; depth += 1) {
    const parent = withFolder(root, (top) => top.descend(folders.slice(0, depth - 1)))
    if (!parent) return
    const name = folders[depth - 1] as string
    const stat = parent.stat(name)
    if (stat && !stat.isDirectory()) parent.remove(name)
    parent.close()
    if (!stat) return
  }
}

/** What the repository has is left alone, and what it has deleted since is not put back. */
function applyCopy(
  located: Locate,
  file: ManifestFile,
  { owner, first }: ApplyOptions,
  copies: Set<string>,
): Applied['action'] {
  const { root, folders, name } = located(file.path)
  try {
    return inFolder(root, folders, owner, (folder) => {
      if (folder.stat(name)) return hasContent(folder, name, file) ? 'kept' : 'skipped'
      if (!first && !copies.has(file.path)) return 'skipped'
      folder.write(name, file.content, file.mode, owner)
      copies.add(file.path)
      return first ? 'written' : 'repaired'
    })
  } catch {
    return 'skipped' // a symlink or a file of the repository stands where a folder would have to be
  }
}

function removeAbsent(located: Locate, manifest: Manifest): Applied[] {
  return manifest.absent.flatMap((file) => {
    const { root, folders, name } = located(file.path)
    const folder = withFolder(root, (top) => top.descend(folders))
    if (!folder) return []
    const ours = folder.stat(name)?.isFile() && hasContent(folder, name, file)
    if (ours) folder.remove(name)
    folder.close()
    return ours ? [removal(file.path)] : []
  })
}

const removal = (path: string): Applied => ({ path, sha256: '0'.repeat(64), action: 'removed' })

/** OpenCode writes it into every config folder. */
const toleratedNames = new Set(['.gitignore'])
/** Of the config folder: pinned abilities, which OpenCode loads nothing from and which are compared before each use. */
export const abilitiesFolder = 'abilities'
/** OpenCode's HOME may fill with caches of its own; only what it loads code or settings from matters. */
const loadedFromHome = new Set(['.opencode', '.config', '.claude', '.agents'])

/** OpenCode loads whatever lies in its config folder, so nothing may lie there that the manifest does not name. */
function removeForeign(manifest: Manifest): Applied[] {
  const { configDir } = manifest.layout
  const known = new Set(manifest.files.map((file) => file.path))
  const parents = new Set([...known].flatMap((path) => parentsOf(path)))
  const removed: Applied[] = []
  const visit = (folder: Folder, path: string) => {
    for (const entry of folder.entries()) {
      const child = `${path}/${entry.name}`
      if (known.has(child) || toleratedNames.has(entry.name)) continue
      if (child === `${configDir}/${abilitiesFolder}`) continue
      if (path === `${configDir}/home` && !loadedFromHome.has(entry.name)) continue
      const inner = parents.has(child) ? folder.enter(entry.name) : undefined
      if (inner) {
        visit(inner, child)
        inner.close()
      } else {
        folder.remove(entry.name)
        removed.push(removal(child))
      }
    }
  }
  withFolder(configDir, (top) => visit(top, configDir))
  return removed
}

function parentsOf(path: string): string[] {
  const names = path.split('/')
  return names.slice(1, -1).map((_, index) => names.slice(0, index + 2).join('/'))
}

const excludeHead = '# Written by Gantry'

/** So that the copies do not show up as the repository's changes. */
function excludeFromGit(manifest: Manifest, copies: string[], owner: Owner | undefined): void {
  const { workspace } = manifest.layout
  const lines = copies.map((path) => path.slice(workspace.length)).sort()
  const info = withFolder(workspace, (top) => {
    const git = top.enter('.git')
    const found = git?.descend(['info'], { owner })
    git?.close()
    return found
  })
  if (!info) return
  const before = info.read('exclude', { maxBytes: 1024 * 1024 })
  const kept = Buffer.isBuffer(before)
    ? (before.toString('utf8').split(`${excludeHead}\n`)[0] ?? '')
    : ''
  const separator = kept === '' || kept.endsWith('\n') ? '' : '\n'
  const content = `${kept}${separator}${excludeHead}\n${lines.join('\n')}\n`
  if (!Buffer.isBuffer(before) || before.toString('utf8') !== content)
    info.write('exclude', content, 0o644, owner)
  info.close()
}

function hasContent(folder: Folder, name: string, file: { sha256: string }): boolean {
  const content = folder.read(name, { maxBytes: 4 * 1024 * 1024 })
  return (
    Buffer.isBuffer(content) && createHash('sha256').update(content).digest('hex') === file.sha256
  )
}

function inFolder<T>(
  root: string,
  folders: string[],
  owner: Owner | undefined,
  work: (folder: Folder) => T,
): T {
  const folder = withFolder(root, (top) => top.descend(folders, { owner }))
  if (!folder) throw new Error(`Cannot enter "${root}/${folders.join('/')}": not a folder`)
  try {
    return work(folder)
  } finally {
    folder.close()
  }
}

function withFolder<T>(path: string, work: (folder: Folder) => T): T {
  const folder = Folder.open(path)
  try {
    return work(folder)
  } finally {
    folder.close()
  }
}
