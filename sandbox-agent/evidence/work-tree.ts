import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { diffOfSubmodule, type LeftOut } from '../../src/contract/diff.ts'
import {
  type DiffOptions,
  diffStoreGit,
  forgetDiffIndex,
  prepareDiffStore,
  unlockDiffStore,
} from './diff-store.ts'

/** For the files of repositories inside the workspace: all others are in the tree by then. */
const nestedTimeoutMs = 20_000
const maxNested = 50
/** A repository in a repository in a repository. */
const maxRounds = 5
const maxListBytes = 64 * 1024 * 1024

interface WorkTree {
  tree: string
  /** In the workspace and not in the tree. */
  leftOut: LeftOut[]
}

/** The last one of each store: two at once would lock each other out of its index. */
const reading = new Map<string, Promise<unknown>>()

/** The files as they are now, as a tree in a store of our own. */
export function readWorkTree(options: DiffOptions): Promise<WorkTree> {
  const before = reading.get(options.gitDir) ?? Promise.resolve()
  const tree = before.then(() => readTree(options))
  reading.set(
    options.gitDir,
    tree.catch(() => undefined),
  )
  return tree
}

/** Without a tree this throws: compared with nothing, all work would seem to be undone. */
async function readTree(options: DiffOptions): Promise<WorkTree> {
  await prepareDiffStore(options)
  const known = await addAndWrite(options)
  if (known !== null) return known
  // What the index knows may be gone with the repository that had it (`rm -rf .git`): every file is read again.
  await forgetDiffIndex(options)
  const anew = await addAndWrite(options)
  if (anew === null) throw new Error('git cannot read the files of the workspace')
  return anew
}

async function addAndWrite(options: DiffOptions): Promise<WorkTree | null> {
  // Ended in the middle, it leaves a lock that would keep all others out.
  if ((await addAll(options)) === null) await unlockDiffStore(options)
  const leftOut = await addNested(options)
  const tree = (await diffStoreGit(options, ['write-tree'], 200)).output.trim()
  return /^[0-9a-f]{40}$/.test(tree) ? { tree, leftOut } : null
}

const everything = ({ excluded }: DiffOptions) => [
  '--',
  '.',
  ...excluded.map((path) => `:(exclude,literal)${path}`),
]

/** Its exit code; null: it took too long and was ended. */
async function addAll(options: DiffOptions, timeoutMs?: number): Promise<number | null> {
  const add = ['add', '--all', '--ignore-errors', ...everything(options)]
  return (await diffStoreGit(options, add, 1000, { timeoutMs })).code
}

/** By store and path: those that took too long are not tried at the end of each turn. */
const tooSlow = new Set<string>()

/**
 * The files of git repositories inside the workspace. Left alone, git takes such a folder for a commit, which nobody else
 * has, or for nothing as long as it has none. Once a file of it is in the index, it is a folder like any other. Submodules,
 * which others can fetch, stay commits.
 */
async function addNested(options: DiffOptions): Promise<LeftOut[]> {
  const tried = new Set<string>()
  for (let round = 1; ; round++) {
    const { nested, submodules, unread } = await lookAround(options)
    const isSlow = (path: string) => tooSlow.has(join(options.gitDir, path))
    const open = nested.filter((path) => !tried.has(path) && !isSlow(path)).slice(0, maxNested)
    if (open.length > 0 && round <= maxRounds) {
      for (const path of open) tried.add(path)
      await openNested(options, open)
      continue
    }
    // What was tried and is still there has no files.
    const shut = nested.filter((path) => !tried.has(path) || isSlow(path))
    return [
      ...submodules.map((path) => ({ path, reason: diffOfSubmodule })),
      ...shut.map((path) => ({ path, reason: 'A git repository that is too large or too deep' })),
      ...unread.map((path) => ({ path, reason: 'It cannot be read' })),
    ].slice(0, 2 * maxNested)
  }
}

interface Around {
  /** Folders that are repositories of their own, and no submodules. */
  nested: string[]
  submodules: string[]
  /** Files that git could not add. */
  unread: string[]
}

async function lookAround(options: DiffOptions): Promise<Around> {
  const others = ['ls-files', '--others', '--exclude-standard', '-z', ...everything(options)]
  const left = await listed(options, others)
  const links = (await listed(options, ['ls-files', '--stage', '-z']))
    .filter((entry) => entry.startsWith('160000 '))
    .map((entry) => entry.slice(entry.indexOf('\t') + 1))
    .filter((path) => existsSync(join(options.workspace, path, '.git')))
  const registered = links.length > 0 ? await registeredPaths(options) : new Set<string>()
  return {
    nested: [
      ...left.filter((path) => path.endsWith('/')).map((path) => path.slice(0, -1)),
      ...links.filter((path) => !registered.has(path)),
    ],
    submodules: links.filter((path) => registered.has(path)),
    unread: left.filter((path) => !path.endsWith('/')),
  }
}

const listed = async (options: DiffOptions, args: string[]): Promise<string[]> =>
  (await diffStoreGit(options, args, maxListBytes)).raw.toString('utf8').split('\0').slice(0, -1)

async function registeredPaths(options: DiffOptions): Promise<Set<string>> {
  const file = join(options.workspace, '.gitmodules')
  if (!existsSync(file)) return new Set()
  const entries = await listed(options, ['config', '-z', '-f', file, '--get-regexp', '[.]path$'])
  return new Set(entries.map((entry) => entry.slice(entry.indexOf('\n') + 1).replace(/\/$/, '')))
}

const emptyBlob = 'e69de29bb2d1d6434b8b29ae775ad8c2e48c5391'

/** By an entry of a file that is not there: adding everything takes it away again. */
async function openNested(options: DiffOptions, folders: readonly string[]): Promise<void> {
  const marks = folders.map((path) => `${path}/.gantry-nested`)
  const entries = marks.flatMap((mark) => ['--cacheinfo', `100644,${emptyBlob},${mark}`])
  await diffStoreGit(options, ['update-index', '--add', '--replace', ...entries], 1000)
  const code = await addAll(options, options.nestedTimeoutMs ?? nestedTimeoutMs)
  if (code !== null) return
  for (const path of folders) tooSlow.add(join(options.gitDir, path))
  await unlockDiffStore(options)
  await diffStoreGit(options, ['update-index', '--force-remove', '--', ...marks], 1000)
  await addAll(options)
}
