import { diffNames } from '../../../src/contract/diff-names.ts'
import type { Operation } from '../../../src/contract/operation.ts'
import { committedPaths, commitIndex, publishCommit, readCommitIndex } from './commit.ts'
import { git, tryGit, whyFailed } from './git.ts'
import type { Outcome } from '../run/outcome.ts'
import { pathInRunSite } from '../run/site.ts'
import type { Upload } from '../read/read.ts'
import { inPrivate, type Repository } from './repository.ts'
import { entryLine } from './workspace-state.ts'

/**
 * Edits are made in an index of the attempt's own, and no file is written on the way: a path in an index leads nowhere,
 * whatever symlinks the repository holds and whoever swaps a folder meanwhile.
 */
export async function edit(
  repository: Repository,
  attemptId: string,
  operation: Operation,
  upload: Upload,
): Promise<Outcome> {
  await readCommitIndex(repository)
  const subject = await change(repository, operation)
  const commit = await commitIndex(repository, `gantry: ${subject}\n\nAttempt ${attemptId}`)
  if (commit === null)
    return { output: 'Nothing changed\n', enforced: ['real-path', 'time', 'output'] }
  await checkTarget(repository, operation, commit)
  return publishCommit(repository, attemptId, commit, upload)
}

async function change(repository: Repository, operation: Operation): Promise<string> {
  const { workspace } = repository.context.site
  if (operation.operation === 'apply-patch') {
    await applyPatch(repository, operation.patch ?? '')
    return 'apply a patch'
  }
  const path = pathInRunSite(workspace, operation.targetPath ?? '')
  if (operation.operation === 'write-file')
    await writeFile(repository, path, operation.content ?? '')
  else await deleteFile(repository, path)
  return `${operation.operation} ${path.length > 200 ? `…${path.slice(-200)}` : path}`
}

async function writeFile(repository: Repository, path: string, content: string): Promise<void> {
  const { context } = repository
  const mode = (await entryMode(repository, path)) ?? '100644'
  if (mode === '120000') throw new Error(`Cannot write "${path}": it is a symlink`)
  if (mode === '160000') throw new Error(`Cannot write "${path}": it is a submodule`)
  const options = inPrivate(repository)
  const blob = await git(context, ['hash-object', '-w', '--no-filters', '--stdin'], {
    ...options,
    input: content,
  })
  const entry = ['update-index', '--add', '--cacheinfo', `${mode},${blob},${path}`]
  const run = await tryGit(context, entry, options)
  if (run.code !== 0) throw new Error(`Cannot write "${path}": ${whyFailed(run)}`)
}

async function deleteFile(repository: Repository, path: string): Promise<void> {
  if ((await entryMode(repository, path)) === undefined)
    throw new Error(`Cannot delete "${path}": no such file in the last commit`)
  const input = entryLine(repository, path, undefined)
  const options = { ...inPrivate(repository), input }
  await git(repository.context, ['update-index', '-z', '--index-info'], options)
}

async function applyPatch(repository: Repository, patch: string): Promise<void> {
  const run = await tryGit(repository.context, ['apply', '--cached', '--whitespace=nowarn', '-'], {
    ...inPrivate(repository),
    input: patch.endsWith('\n') ? patch : `${patch}\n`,
  })
  if (run.code !== 0) throw new Error(`Cannot apply the patch: ${whyFailed(run)}`)
}

/** undefined: there is no such file. */
async function entryMode(repository: Repository, path: string): Promise<string | undefined> {
  const args = ['ls-files', '--stage', '-z', '--', path]
  const output = await git(repository.context, args, inPrivate(repository))
  const entry = output.split('\0').find((each) => each.endsWith(`\t${path}`))
  return entry?.slice(0, 6)
}

/** A patch was decided on for the files that its text names, and for its target if it has one. */
async function checkTarget(
  repository: Repository,
  { operation, patch = '', targetPath }: Operation,
  commit: string,
): Promise<void> {
  if (operation !== 'apply-patch') return
  const { context, head, emptyTree } = repository
  const { workspace } = context.site
  const paths = await committedPaths(repository, head ?? emptyTree, commit)
  const names = new Set(diffNames(patch))
  // Where a name could not be told, somebody has decided on the patch as a whole.
  const unnamed = names.has(null) ? undefined : paths.find((path) => !names.has(path))
  if (unnamed !== undefined)
    throw new Error(`Cannot apply the patch: it changes "${unnamed}", which it does not name`)
  if (targetPath === undefined || targetPath === '.' || targetPath === workspace) return
  const target = pathInRunSite(workspace, targetPath)
  const other = paths.find((path) => path !== target && !path.startsWith(`${target}/`))
  if (other !== undefined)
    throw new Error(`Cannot apply the patch: it changes "${other}", not only "${target}"`)
}
