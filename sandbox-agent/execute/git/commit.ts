import { type Bounded } from '../run/bounded.ts'
import { git, tryGit, whyFailed } from './git.ts'
import type { Outcome } from '../run/outcome.ts'
import type { Upload } from '../read/read.ts'
import { maxFileBytes } from '../read/read.ts'
import { branchOf, branchRef, inPrivate, type Repository } from './repository.ts'

const maxStatBytes = 16 * 1024

/** The files of the last commit as an index of the attempt's own. What is not committed is not in it. */
export async function readCommitIndex(repository: Repository): Promise<void> {
  if (repository.head === null) return
  await git(repository.context, ['read-tree', repository.head], inPrivate(repository))
}

/** Makes a commit of the attempt's index; null: nothing differs from the parent. */
export async function commitIndex(
  repository: Repository,
  message: string,
  parent = repository.head,
): Promise<string | null> {
  const { context, emptyTree } = repository
  const options = inPrivate(repository)
  const tree = await git(context, ['write-tree'], options)
  const before = parent === null ? emptyTree : await treeOf(repository, parent)
  if (tree === before) return null
  const parents = parent === null ? [] : ['-p', parent]
  return git(context, ['commit-tree', tree, ...parents, '-m', message], options)
}

export const treeOf = (repository: Repository, commit: string) =>
  git(repository.context, ['rev-parse', '--verify', `${commit}^{tree}`], inPrivate(repository))

export async function committedPaths(
  repository: Repository,
  before: string,
  after: string,
): Promise<string[]> {
  const args = ['diff-tree', '-r', '-z', '--name-only', '--no-renames', before, after]
  const output = await git(repository.context, args, {
    ...inPrivate(repository),
    maxBytes: maxFileBytes,
  })
  return output.split('\0').filter((path) => path !== '')
}

/** Refuses files with a filter: git would run it, and a filter is a program that the repository chooses. */
async function refuseFiltered(repository: Repository, paths: string[]): Promise<void> {
  const output = await git(
    repository.context,
    ['check-attr', '--cached', '-z', '--stdin', 'filter'],
    {
      ...inPrivate(repository),
      input: paths.map((path) => `${path}\0`).join(''),
      maxBytes: maxFileBytes,
    },
  )
  const fields = output.split('\0')
  for (let at = 0; at + 2 < fields.length; at += 3) {
    const [path, , filter] = fields.slice(at, at + 3)
    if (filter !== 'unspecified' && filter !== 'unset')
      throw new Error(`Cannot change "${path}": it has the filter "${filter}", which is not run`)
  }
}

/** The branch is what remains of the attempt; its diff is kept as a file. */
export async function publishCommit(
  repository: Repository,
  attemptId: string,
  commit: string,
  upload: Upload,
): Promise<Outcome> {
  const { context, gitDir, head, emptyTree } = repository
  const range = [head ?? emptyTree, commit] as const
  await refuseFiltered(repository, await committedPaths(repository, ...range))
  const stat = await show(repository, ['--stat=100', '--summary', ...range], maxStatBytes)
  const patch = await show(repository, ['-p', '--binary', '--full-index', ...range], maxFileBytes)
  await git(context, ['update-ref', branchRef(attemptId), commit, ''], { gitDir })
  const base = head === null ? 'no commit' : `commit ${head.slice(0, 12)}`
  const note = `${stat.stdout.toString('utf8')}\nBased on ${base}: uncommitted changes of the workspace are not in it\n`
  return {
    output: note,
    truncated: stat.cut || patch.cut,
    branch: branchOf(attemptId),
    commit,
    ...(await uploadPatch(attemptId, patch, upload, note)),
    enforced: ['real-path', 'time', 'output'],
  }
}

async function show(repository: Repository, args: string[], maxBytes: number): Promise<Bounded> {
  const flags = ['diff-tree', '-r', '-M', '--no-color', '--no-ext-diff', '--no-textconv']
  const run = await tryGit(repository.context, [...flags, ...args], {
    ...inPrivate(repository),
    maxBytes,
  })
  if (run.code !== 0 && !run.cut) throw new Error(`git diff-tree: ${whyFailed(run)}`)
  return run
}

// If the diff cannot be uploaded, the attempt has still succeeded: the branch is there.
async function uploadPatch(
  attemptId: string,
  patch: Bounded,
  upload: Upload,
  note: string,
): Promise<Pick<Outcome, 'files' | 'output'>> {
  try {
    return { files: [await upload(`${attemptId}.patch`, patch.stdout, 'text/x-diff')] }
  } catch (error) {
    return { output: `${note}The diff could not be kept: ${(error as Error).message}\n` }
  }
}
