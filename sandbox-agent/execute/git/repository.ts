import { Folder } from '../../workspace/folder.ts'
import { type Bounded, runBounded } from '../run/bounded.ts'
import { git, type GitContext, tryGit, whyFailed } from './git.ts'
import { runSiteEnvironment, type Site } from '../run/site.ts'

/** The workspace's own repository. Only references are written in it, and by the merge its index. */
export interface Repository {
  context: GitContext
  gitDir: string
  objects: string
  /** What a symbolic HEAD names; null: detached. */
  headRef: string | null
  /** The commit; null: there is none yet. */
  head: string | null
  /** The tree of no files, in the repository's own hash. */
  emptyTree: string
  /** Where operations have their own indexes and files. */
  folder: string
  privateGitDir: string
  /** Of its hashes. */
  format: string
}

export const branchOf = (attemptId: string) => `gantry/${attemptId}`
export const branchRef = (attemptId: string) => `refs/heads/${branchOf(attemptId)}`
const worktrees = (site: Site) => `${site.home}/.gantry-worktrees`

/** Has a git folder of its own, so that nothing that the repository's config says is heard. */
export async function openRepository(
  site: Site,
  attemptId: string,
  deadline: number,
): Promise<Repository> {
  checkGitFolder(site.workspace)
  const gitDir = `${site.workspace}/.git`
  const facts: GitContext = { site, attemptId, deadline, settings: {} }
  const settings = await readSettings(facts, gitDir)
  const context = { ...facts, settings: settings.kept }
  const [headRef, head] = await readHead(context, gitDir)
  const folder = `${worktrees(site)}/${attemptId}`
  const privateGitDir = `${folder}/git`
  await removeRepositoryFolder(site, attemptId, deadline)
  await runAsRepositoryOwner(context, 'mkdir', ['-p', '-m', '700', folder])
  await makeRepositoryDir(context, privateGitDir, settings.format)
  const objects = `${gitDir}/objects`
  const emptyTree = await git(context, ['hash-object', '-w', '-t', 'tree', '--stdin'], {
    gitDir: privateGitDir,
    objects,
  })
  const { format } = settings
  return { context, gitDir, objects, headRef, head, emptyTree, folder, privateGitDir, format }
}

export async function makeRepositoryDir(
  context: GitContext,
  gitDir: string,
  format: string,
): Promise<void> {
  const args = ['init', '--quiet', '--bare', '--template=', `--object-format=${format}`, gitDir]
  await git(context, args, { gitDir })
}

/** With the attempt's own git folder. */
export const inPrivate = (repository: Repository, index?: string) => ({
  gitDir: repository.privateGitDir,
  objects: repository.objects,
  ...(index !== undefined && { index }),
})

/** As the sandbox's user, whose files these are: nothing that it puts in the way can be more than its own. */
export async function removeRepositoryFolder(
  site: Site,
  attemptId: string,
  deadline: number,
): Promise<void> {
  const context = { site, attemptId, deadline, settings: {} }
  await runAsRepositoryOwner(context, 'rm', ['-rf', '--', `${worktrees(site)}/${attemptId}`])
}

export async function runAsRepositoryOwner(
  { site, attemptId, deadline }: GitContext,
  file: string,
  args: string[],
  input = '',
): Promise<Bounded> {
  const environment = runSiteEnvironment(site, attemptId)
  const { owner, run: behindWalls } = site
  const run = await runBounded(file, args, {
    ...{ environment, owner, deadline, input },
    run: behindWalls,
  })
  if (run.code !== 0) throw new Error(`${file}: ${whyFailed(run)}`)
  return run
}

// A `.git` file or symlink may lead to a repository elsewhere, which is not this workspace.
function checkGitFolder(workspace: string): void {
  const top = Folder.open(workspace)
  const gitFolder = top.enter('.git')
  top.close()
  if (!gitFolder) throw new Error('The workspace is not a git repository with a folder of its own')
  const isOwn = ['objects', 'refs'].every((name) => gitFolder.stat(name)?.isDirectory())
  const isShared = gitFolder.stat('commondir') !== undefined
  gitFolder.close()
  if (!isOwn || isShared) throw new Error("The workspace's git folder leads elsewhere")
}

const keptSettings = [
  'core.filemode',
  'core.autocrlf',
  'core.eol',
  'core.symlinks',
  'core.ignorecase',
]

async function readSettings(context: GitContext, gitDir: string) {
  const pattern =
    '^(core\\.(filemode|autocrlf|eol|symlinks|ignorecase|sparsecheckout)|extensions\\.objectformat)$'
  const run = await tryGit(context, ['config', '--null', '--get-regexp', pattern], { gitDir })
  if (run.code !== 0 && run.code !== 1) throw new Error(`git config: ${whyFailed(run)}`)
  const found = Object.fromEntries(
    run.stdout
      .toString('utf8')
      .split('\0')
      .filter((entry) => entry !== '')
      .map((entry) => entry.split('\n') as [string, string?])
      .map(([key, value]) => [key, value ?? 'true']),
  )
  if (found['core.sparsecheckout'] === 'true')
    throw new Error('The workspace is checked out sparsely, which is not supported')
  const kept = Object.entries(found).filter(([key]) => keptSettings.includes(key))
  return { kept: Object.fromEntries(kept), format: found['extensions.objectformat'] ?? 'sha1' }
}

async function readHead(
  context: GitContext,
  gitDir: string,
): Promise<[string | null, string | null]> {
  const symbolic = await tryGit(context, ['symbolic-ref', '--quiet', 'HEAD'], { gitDir })
  const commit = await tryGit(context, ['rev-parse', '--quiet', '--verify', 'HEAD'], { gitDir })
  const text = (run: Bounded) => (run.code === 0 ? run.stdout.toString('utf8').trim() : null)
  if (text(symbolic) === null && text(commit) === null)
    throw new Error(`The workspace's HEAD cannot be read: ${whyFailed(commit)}`)
  return [text(symbolic), text(commit)]
}
