import { commitIndex, publishCommit, readCommitIndex } from './commit.ts'
import { git, gitEnvironment, type GitOptions } from './git.ts'
import { checkGitArguments, quietGitArguments } from './arguments.ts'
import type { Outcome } from '../run/outcome.ts'
import type { Upload } from '../read/read.ts'
import {
  branchRef,
  inPrivate,
  makeRepositoryDir,
  type Repository,
  runAsRepositoryOwner,
} from './repository.ts'
import { quoteForEnclosure } from '../run/enclosure.ts'
import { type Run, runEnclosed } from '../run/run.ts'
import { runSiteFolder } from '../run/site.ts'

type Walls = Pick<Run, 'held' | 'plan' | 'stop'>

/** A git command over the workspace as it is, or, if it changes something, over a checkout of the attempt's own. */
export async function runGitCommand(
  repository: Repository,
  attemptId: string,
  args: readonly string[],
  walls: Walls,
  upload: Upload,
): Promise<Outcome> {
  const use = checkGitArguments(args)
  await copyReferences(repository)
  if (use === 'reads') return readWithGit(repository, args, walls)
  await setBranch(repository, attemptId)
  const files = await checkOut(repository)
  const options = { ...inPrivate(repository), workTree: files }
  const outcome = await enclosed(repository, args, options, files, walls)
  if (outcome.error) return outcome
  await git(repository.context, ['add', '--all'], {
    ...options,
    env: { GIT_LITERAL_PATHSPECS: '0' },
  })
  return merged(outcome, await publishHead(repository, attemptId, args, upload))
}

/** Whatever a command changes in a checkout of the last commit. */
export async function runGitInWorktree(
  repository: Repository,
  attemptId: string,
  run: Omit<Run, 'folder'>,
  upload: Upload,
  cwd?: string,
): Promise<Outcome> {
  const files = await checkOut(repository)
  const outcome = await runEnclosed({ ...run, folder: runSiteFolder(files, cwd) })
  if (outcome.error) return outcome
  // The command may have written into the git folder, too: what is read now is not what it left there.
  const { context, privateGitDir, format } = repository
  await runAsRepositoryOwner(context, 'rm', ['-rf', '--', privateGitDir])
  await makeRepositoryDir(context, privateGitDir, format)
  await readCommitIndex(repository)
  await git(context, ['add', '--all'], { ...inPrivate(repository), workTree: files })
  const commit = await commitIndex(repository, `gantry: run a command\n\nAttempt ${attemptId}`)
  return commit === null
    ? outcome
    : merged(outcome, await publishCommit(repository, attemptId, commit, upload))
}

const merged = (run: Outcome, published: Outcome): Outcome => ({
  ...run,
  ...published,
  output: [run.output, published.output]
    .filter((text) => text !== undefined && text !== '')
    .join('\n'),
  truncated: run.truncated === true || published.truncated === true,
  enforced: [...new Set([...run.enforced, ...published.enforced])],
})

/** The index is a copy: `status` and others write to it. */
async function readWithGit(
  repository: Repository,
  args: readonly string[],
  walls: Walls,
): Promise<Outcome> {
  const { context, gitDir, privateGitDir, headRef, head } = repository
  const { workspace } = context.site
  const options = inPrivate(repository)
  if (headRef !== null) await git(context, ['symbolic-ref', 'HEAD', headRef], options)
  else await git(context, ['update-ref', '--no-deref', 'HEAD', head ?? ''], options)
  const copy = 'test ! -f "$1" || cp -- "$1" "$2"'
  await runAsRepositoryOwner(context, 'sh', [
    '-c',
    copy,
    'sh',
    `${gitDir}/index`,
    `${privateGitDir}/index`,
  ])
  return enclosed(repository, args, { ...options, workTree: workspace }, workspace, walls)
}

function enclosed(
  { context }: Repository,
  args: readonly string[],
  options: GitOptions,
  folder: string,
  walls: Walls,
): Promise<Outcome> {
  const env = { GIT_LITERAL_PATHSPECS: '0' }
  return runEnclosed({
    ...walls,
    // Nothing that git may be asked to do here needs it.
    plan: { ...walls.plan, network: false },
    site: context.site,
    attemptId: context.attemptId,
    folder,
    environment: gitEnvironment(context, { ...options, env }),
    command: ['git', ...quietGitArguments(args).map(quoteForEnclosure)].join(' '),
  })
}

/**
 * Copies the references, so that other branches and tags can be named. As one file: git would refuse all for a broken
 * one.
 */
async function copyReferences({ context, gitDir, privateGitDir }: Repository): Promise<void> {
  const references = await git(context, ['for-each-ref', '--format=%(objectname) %(refname)'], {
    gitDir,
    maxBytes: 8 * 1024 * 1024,
  })
  const packed = `# pack-refs with: sorted\n${references}${references === '' ? '' : '\n'}`
  await runAsRepositoryOwner(
    context,
    'sh',
    ['-c', 'cat > "$1"', 'sh', `${privateGitDir}/packed-refs`],
    packed,
  )
  const shallow = 'test ! -f "$1" || cp -- "$1" "$2"'
  await runAsRepositoryOwner(context, 'sh', [
    '-c',
    shallow,
    'sh',
    `${gitDir}/shallow`,
    `${privateGitDir}/shallow`,
  ])
}

async function setBranch(repository: Repository, attemptId: string): Promise<void> {
  const { context, head } = repository
  const options = inPrivate(repository)
  await git(context, ['symbolic-ref', 'HEAD', branchRef(attemptId)], options)
  if (head !== null) await git(context, ['update-ref', 'HEAD', head], options)
}

async function checkOut(repository: Repository): Promise<string> {
  const { context, folder } = repository
  const files = `${folder}/files`
  await runAsRepositoryOwner(context, 'mkdir', [files])
  await readCommitIndex(repository)
  const options = { ...inPrivate(repository), workTree: files }
  await git(context, ['checkout-index', '--all', '--index'], options)
  return files
}

async function publishHead(
  repository: Repository,
  attemptId: string,
  args: readonly string[],
  upload: Upload,
): Promise<Outcome> {
  const { context, head } = repository
  const now = await git(context, ['rev-parse', '--verify', 'HEAD'], inPrivate(repository)).catch(
    () => null,
  )
  const message = `gantry: git ${args[0]}\n\nAttempt ${attemptId}`
  const commit = (await commitIndex(repository, message, now)) ?? now
  if (commit === null || commit === head) return { enforced: [] }
  return publishCommit(repository, attemptId, commit, upload)
}
