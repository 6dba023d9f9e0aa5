import { Folder } from '../../workspace/folder.ts'
import { git, type GitOptions, tryGit } from './git.ts'
import { inPrivate, type Repository, runAsRepositoryOwner } from './repository.ts'

/** Two trees and the paths in which they differ. */
export interface Sides {
  before: string
  after: string
  paths: string[]
}

/** "mode object" by path. */
type Entries = Map<string, string>

const maxListBytes = 64 * 1024 * 1024

const states: Record<string, string> = {
  MERGE_HEAD: 'merge',
  CHERRY_PICK_HEAD: 'cherry-pick',
  REVERT_HEAD: 'revert',
  'rebase-merge': 'rebase',
  'rebase-apply': 'rebase',
}

/** A person or OpenCode is in the middle of something that starts from the present HEAD. */
export function workspaceStateUnderWay(workspace: string): string | undefined {
  return inFolder(
    workspace,
    ['.git'],
    (folder) => Object.entries(states).find(([name]) => folder.stat(name) !== undefined)?.[1],
  )
}

/** How the workspace compares with a change. */
interface Standing {
  /** Paths whose content is neither that before the change nor that after it: it would be lost. */
  lost: string[]
  /** Index entries of files that are already as they will be, in the form of `update-index`. */
  ahead: string[]
}

/**
 * Git itself would not ask everywhere: it overwrites what is ignored or assumed unchanged. And it would take a file that
 * a merge has written before it was cut off for somebody's work.
 */
export async function compareWorkspaceState(
  repository: Repository,
  sides: Sides,
): Promise<Standing> {
  const { paths } = sides
  const [before, after] = [
    await treeEntries(repository, sides.before),
    await treeEntries(repository, sides.after),
  ]
  const changed = await fileChanges(repository, 'before', before, paths)
  const unfinished = await fileChanges(repository, 'after', after, paths)
  const index = await indexEntries(repository)
  // Git writes files before the index: an index that is ahead of its file is somebody's own, like a third version.
  const isStaged = (path: string) =>
    index.get(path) !== before.get(path) &&
    (index.get(path) !== after.get(path) || unfinished.has(path))
  return {
    lost: paths.filter((path) => (changed.has(path) && unfinished.has(path)) || isStaged(path)),
    ahead: paths
      .filter((path) => changed.has(path) && !unfinished.has(path))
      .map((path) => entryLine(repository, path, after.get(path))),
  }
}

/** As `update-index` reads it. */
export const entryLine = ({ emptyTree }: Repository, path: string, entry: string | undefined) =>
  `${entry ?? `0 ${'0'.repeat(emptyTree.length)}`}\t${path}\0`

/** The paths whose file is not what the entries say; a file of which they say nothing counts, too. */
async function fileChanges(
  repository: Repository,
  name: string,
  entries: Entries,
  paths: string[],
): Promise<Set<string>> {
  const { context, privateGitDir } = repository
  const { workspace } = context.site
  // An index of these paths alone: what is compared by content is only what matters.
  const options = { ...inPrivate(repository, `${privateGitDir}/${name}`), workTree: workspace }
  const known = paths.filter((path) => entries.has(path))
  const input = known.map((path) => entryLine(repository, path, entries.get(path))).join('')
  await git(context, ['update-index', '-z', '--index-info'], { ...options, input })
  await tryGit(context, ['update-index', '-q', '--refresh'], options)
  const args = ['diff-files', '--name-only', '-z', '--no-renames', '--ignore-submodules=all']
  const changed = await git(context, args, { ...options, maxBytes: maxListBytes })
  const others = paths.filter((path) => !entries.has(path) && isInTheWay(workspace, path, entries))
  return new Set([...changed.split('\0'), ...others])
}

async function treeEntries(repository: Repository, tree: string): Promise<Entries> {
  const args = ['ls-tree', '-r', '-z', '--format=%(objectmode) %(objectname)%x09%(path)', tree]
  return parseEntries(await list(repository, args, inPrivate(repository)))
}

/** An entry that git has not merged yet gets its stage as well, so that it equals no version. */
async function indexEntries(repository: Repository): Promise<Entries> {
  const { context, gitDir, privateGitDir } = repository
  const index = `${privateGitDir}/staged`
  const copy = 'test ! -f "$1" || cp -- "$1" "$2"'
  await runAsRepositoryOwner(context, 'sh', ['-c', copy, 'sh', `${gitDir}/index`, index])
  const options = inPrivate(repository, index)
  const lines = await list(repository, ['ls-files', '--stage', '-z'], options)
  return parseEntries(
    lines.map((line) =>
      line.replace(
        /^(\d+ \w+) (\d)\t/,
        (_, entry, stage) => `${entry}${stage === '0' ? '' : ` ${stage}`}\t`,
      ),
    ),
  )
}

const list = async (repository: Repository, args: string[], options: GitOptions) =>
  (await git(repository.context, args, { ...options, maxBytes: maxListBytes }))
    .split('\0')
    .filter((line) => line !== '')

const parseEntries = (lines: string[]): Entries =>
  new Map(
    lines.map((line) => [line.slice(line.indexOf('\t') + 1), line.slice(0, line.indexOf('\t'))]),
  )

/** Whether something that no commit knows is where a file, or one of its folders, will be. */
function isInTheWay(workspace: string, path: string, known: Entries): boolean {
  const names = path.split('/')
  for (let depth = 1; depth <= names.length; depth += 1) {
    const stat = inFolder(workspace, names.slice(0, depth - 1), (folder) =>
      folder.stat(names[depth - 1] as string),
    )
    if (stat === undefined) return false
    if (stat.isDirectory()) continue
    // A file of the last commit that gives way to a folder is looked at by itself.
    return depth === names.length || !known.has(names.slice(0, depth).join('/'))
  }
  return hasForeignFiles(workspace, names, known)
}

/** The path is a folder: it may hold only what the tree knows. */
function hasForeignFiles(workspace: string, names: string[], known: Entries): boolean {
  const isForeign = (folder: Folder) =>
    folder.entries().some((entry) => {
      const path = [...names, entry.name]
      return entry.isDirectory()
        ? hasForeignFiles(workspace, path, known)
        : !known.has(path.join('/'))
    })
  return inFolder(workspace, names, isForeign) ?? true
}

function inFolder<T>(
  workspace: string,
  names: string[],
  work: (folder: Folder) => T,
): T | undefined {
  const top = Folder.open(workspace)
  const folder = top.descend(names)
  top.close()
  if (!folder) return undefined
  try {
    return work(folder)
  } finally {
    folder.close()
  }
}
