import type { MergeReport } from '../../../src/contract/operation.ts'
import { committedPaths, treeOf } from './commit.ts'
import { git, tryGit, whyFailed } from './git.ts'
import { branchOf, branchRef, inPrivate, type Repository } from './repository.ts'
import { compareWorkspaceState, workspaceStateUnderWay, type Sides } from './workspace-state.ts'

/**
 * Brings a commit into the workspace: its files, its index, its HEAD, in this order. Whatever would be lost by that is
 * named instead, and nothing is touched. Cut off anywhere, it is taken up by the next try: a file that is already as the
 * merge wants it counts as unchanged.
 */
export async function mergeCommit(
  repository: Repository,
  attemptId: string,
  commit: string,
): Promise<MergeReport> {
  const { context, head, emptyTree } = repository
  const underWay = workspaceStateUnderWay(context.site.workspace)
  if (underWay !== undefined)
    throw new Error(`Cannot merge: a ${underWay} is under way in the workspace`)
  if (await isAncestor(repository, commit, head)) return done(head as string)
  await checkBranch(repository, attemptId, commit)
  const target = await join(repository, attemptId, commit)
  if ('conflicts' in target) return { merged: false, commit: null, conflicts: target.conflicts }
  const before = head === null ? emptyTree : await treeOf(repository, head)
  const sides = { before, after: await treeOf(repository, target.commit) }
  const conflicts = await update(repository, sides)
  if (conflicts.length > 0) return { merged: false, commit: null, conflicts }
  await moveHead(repository, attemptId, target.commit)
  return done(target.commit)
}

const done = (commit: string): MergeReport => ({ merged: true, commit, conflicts: [] })

/** The commit is in HEAD by now, or the merge is remembered. */
export async function removeMergedBranch(
  { context, gitDir }: Repository,
  attemptId: string,
): Promise<void> {
  await tryGit(context, ['update-ref', '-d', branchRef(attemptId)], { gitDir })
}

/** False if it was gone already. */
export async function dropMergeBranch(
  repository: Repository,
  attemptId: string,
  commit: string,
): Promise<boolean> {
  const found = await findBranch(repository, attemptId)
  if (found === '') return false
  mustBeReported(found, attemptId, commit, 'discard')
  const { context, gitDir } = repository
  await git(context, ['update-ref', '-d', branchRef(attemptId), commit], { gitDir })
  return true
}

/** What was shown is what is merged: anybody in the sandbox can move a branch. */
async function checkBranch(
  repository: Repository,
  attemptId: string,
  commit: string,
): Promise<void> {
  mustBeReported(await findBranch(repository, attemptId), attemptId, commit, 'merge')
}

function mustBeReported(found: string, attemptId: string, commit: string, verb: string): void {
  if (found !== commit)
    throw new Error(`Cannot ${verb} "${branchOf(attemptId)}": it is no longer what was reported`)
}

async function findBranch({ context, gitDir }: Repository, attemptId: string): Promise<string> {
  const args = ['rev-parse', '--quiet', '--verify', branchRef(attemptId)]
  return (await tryGit(context, args, { gitDir })).stdout.toString('utf8').trim()
}

async function isAncestor(
  repository: Repository,
  ancestor: string,
  commit: string | null,
): Promise<boolean> {
  if (commit === null) return false
  const args = ['merge-base', '--is-ancestor', ancestor, commit]
  const run = await tryGit(repository.context, args, inPrivate(repository))
  if (run.code === 0 || run.code === 1) return run.code === 0
  throw new Error(`git merge-base: ${whyFailed(run)}`)
}

/** The commit itself if it follows HEAD, else one of both, made without touching a file. */
async function join(
  repository: Repository,
  attemptId: string,
  commit: string,
): Promise<{ commit: string } | { conflicts: string[] }> {
  const { context, head } = repository
  if (head === null || (await isAncestor(repository, head, commit))) return { commit }
  const options = inPrivate(repository)
  const args = ['merge-tree', '--write-tree', '-z', '--name-only', '--no-messages']
  const run = await tryGit(context, [...args, '--allow-unrelated-histories', head, commit], options)
  const [tree = '', ...names] = run.stdout.toString('utf8').split('\0')
  if (run.code === 1) return { conflicts: [...new Set(names.filter((name) => name !== ''))] }
  if (run.code !== 0)
    throw new Error(`Cannot merge (git 2.38 or newer is needed): ${whyFailed(run)}`)
  const message = `Merge branch '${branchOf(attemptId)}'`
  const both = ['commit-tree', tree, '-p', head, '-p', commit, '-m', message]
  return { commit: await git(context, both, options) }
}

/** The paths that would be lost; without any, the files and the index are as the merge wants them. */
async function update(
  repository: Repository,
  { before, after }: Omit<Sides, 'paths'>,
): Promise<string[]> {
  const { context, gitDir } = repository
  const { workspace } = context.site
  const sides = { before, after, paths: await committedPaths(repository, before, after) }
  const { lost, ahead } = await compareWorkspaceState(repository, sides)
  if (lost.length > 0) return lost
  const options = { ...inPrivate(repository), index: `${gitDir}/index`, workTree: workspace }
  const settle = ['update-index', '-z', '--index-info']
  if (ahead.length > 0) await git(context, settle, { ...options, input: ahead.join('') })
  // Its exit code only says that some files have changed.
  await tryGit(context, ['update-index', '-q', '--refresh'], options)
  const run = await tryGit(context, ['read-tree', '-m', '-u', before, after], options)
  if (run.code !== 0) throw new Error(`Cannot merge: ${whyFailed(run)}`)
  return []
}

async function moveHead(repository: Repository, attemptId: string, commit: string): Promise<void> {
  const { context, gitDir, head } = repository
  const message = `merge ${branchOf(attemptId)}`
  await git(context, ['update-ref', '-m', message, 'HEAD', commit, head ?? ''], { gitDir })
}
