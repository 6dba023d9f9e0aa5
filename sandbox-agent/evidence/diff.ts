import { isUtf8 } from 'node:buffer'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import {
  type DiffReport,
  type LeftOut,
  maxDiffBytes,
  maxDiffFiles,
} from '../../src/contract/diff.ts'
import { patchChecksum, type TurnPatch } from '../../src/contract/patch.ts'
import { type DiffOptions, diffStoreGit } from './diff-store.ts'
import { readWorkTree } from './work-tree.ts'

const emptyTree = '4b825dc642cb6eb9a060e54bf8d69288fbee4904'

/** The tree that the work starts from: what a snapshot brought uncommitted is not this sandbox's doing. */
export function readDiffBase(options: DiffOptions): Promise<string> {
  return readWorkTree(options).then(
    ({ tree }) => tree,
    () => emptyTree,
  )
}

/** Null: no repository of the workspace's own, or one without a commit. */
export async function readDiffCommit({ workspace, run, environment }: DiffOptions) {
  const head = ['--git-dir=.git', 'rev-parse', '--verify', '--quiet', 'HEAD^{commit}']
  const limits = { folder: workspace, environment, maxBytes: 200, timeoutMs: 10_000 }
  const ran = await run('git', head, limits).catch(() => null)
  const name = ran?.code === 0 ? ran.output.toString('utf8').trim() : ''
  return /^[0-9a-f]{40,64}$/.test(name) ? name : null
}

/** Everything that differs from the base, untracked files too. */
export async function takeDiff(
  options: DiffOptions,
  baseTree: string,
  maxBytes = maxDiffBytes,
): Promise<DiffReport> {
  const { tree, leftOut } = await readWorkTree(options)
  const range = rangeOf(baseTree, tree)
  const whole = await diffOf(options, range, maxBytes)
  if (!whole.truncated) return { ...whole, base: baseTree, leftOut: atMost(leftOut) }
  const without = await withoutNested(options, range)
  const rest = without && (await diffOf(options, without.range, maxBytes))
  return rest && rest.files.length > 0
    ? { ...rest, base: baseTree, leftOut: atMost([...leftOut, ...without.leftOut]) }
    : { ...whole, base: baseTree, leftOut: atMost(leftOut) }
}

async function diffOf(options: DiffOptions, range: string[], maxBytes: number) {
  const status = await diffStoreGit(
    options,
    ['diff', '--raw', '--numstat', '-z', ...range],
    4 * 1024 * 1024,
  )
  const patch = await diffStoreGit(options, ['diff', ...range], maxBytes)
  // A part of a diff would look like all of it.
  for (const { code, truncated } of [status, patch])
    if (code !== 0 && !truncated) throw new Error(`git diff ended with ${code}`)
  const files = parseFiles(status.output)
  return {
    patch: patch.output,
    files: files.slice(0, maxDiffFiles),
    truncated: patch.truncated || status.truncated || files.length > maxDiffFiles,
  }
}

/** The same for `diffStoreGit apply`: binary files too, and never a part of it. */
export async function takeDiffPatch(
  options: DiffOptions,
  baseTree: string,
  maxBytes: number,
): Promise<TurnPatch> {
  const { tree, leftOut } = await readWorkTree(options)
  const range = rangeOf(baseTree, tree)
  const whole = await patchOf(options, range, maxBytes)
  const about = { base: baseTree, tree }
  if (whole.text !== null) return { ...about, ...whole, leftOut: atMost(leftOut) }
  const without = await withoutNested(options, range)
  const rest = without && (await patchOf(options, without.range, maxBytes))
  // What has nothing else in it is as good as missing.
  return without && rest?.text
    ? { ...about, ...rest, leftOut: atMost([...leftOut, ...without.leftOut]) }
    : { ...about, ...whole, leftOut: atMost(leftOut) }
}

/** Patch and list travel in one message, which has a limit. */
const maxLeftOutBytes = 32 * 1024

/** As many as there is room for in the message, and how many more there are. */
function atMost(leftOut: readonly LeftOut[]): LeftOut[] {
  let bytes = 0
  const told = leftOut.filter((entry) => {
    bytes += Buffer.byteLength(JSON.stringify(entry))
    return bytes <= maxLeftOutBytes
  })
  const more = leftOut.length - told.length
  return more === 0 ? told : [...told, { path: '…', reason: `And ${more} more` }]
}

async function patchOf(options: DiffOptions, range: string[], maxBytes: number) {
  const files = (await changedNames(options, range)).length
  let { bytes, text } = await patchText(options, range, maxBytes)
  // In a text of another encoding bytes would be lost: it is sent as if it were binary.
  if (text === null && bytes <= maxBytes)
    ({ bytes, text } = await patchText(options, range, maxBytes, opaque(options)))
  if (text !== null && Buffer.byteLength(JSON.stringify(text)) > maxBytes) text = null
  return { files, bytes, text, checksum: patchChecksum(text ?? '') }
}

async function changedNames(options: DiffOptions, range: string[]): Promise<string[]> {
  const names = await diffStoreGit(
    options,
    ['diff', '--name-only', '-z', ...range],
    16 * 1024 * 1024,
  )
  return names.raw.toString('utf8').split('\0').slice(0, -1)
}

/** A clone of something large must not hide what else was done. Null: there is none among what has changed. */
async function withoutNested(
  options: DiffOptions,
  range: string[],
): Promise<{ range: string[]; leftOut: LeftOut[] } | null> {
  const folders = repositoriesOf(options.workspace, await changedNames(options, range))
  if (folders.length === 0) return null
  const excluded = folders.map((path) => `:(exclude,literal)${path}`)
  const reason = 'A git repository: with its files this would be too large'
  return {
    range: [...range, '--', '.', ...excluded],
    leftOut: folders.map((path) => ({ path, reason })),
  }
}

/** The outermost folders of these files that are repositories of their own. */
function repositoriesOf(workspace: string, files: readonly string[]): string[] {
  const known = new Map<string, boolean>()
  const isRepository = (folder: string): boolean => {
    const is = known.get(folder) ?? existsSync(join(workspace, folder, '.git'))
    known.set(folder, is)
    return is
  }
  const found = files.flatMap((file) => {
    const parts = file.split('/').slice(0, -1)
    const folders = parts.map((_, at) => parts.slice(0, at + 1).join('/'))
    return folders.find(isRepository) ?? []
  })
  return [...new Set(found)]
}

/** Null: too large, or no text. */
async function patchText(
  options: DiffOptions,
  range: string[],
  maxBytes: number,
  settings: string[] = [],
): Promise<{ bytes: number; text: string | null }> {
  const { raw, bytes, code } = await diffStoreGit(
    options,
    [...settings, 'diff', '--binary', ...range],
    maxBytes,
    { beyond: 'count' },
  )
  if (code !== 0) throw new Error(`git diff ended with ${code}`)
  return { bytes, text: bytes <= maxBytes && isUtf8(raw) ? raw.toString('utf8') : null }
}

const opaque = ({ gitDir }: DiffOptions) => ['-c', `core.attributesFile=${gitDir}/opaque`]

const rangeOf = (baseTree: string, tree: string) => [
  ...['--no-color', '--no-ext-diff', '--no-textconv', '--submodule=short', '--find-renames'],
  baseTree,
  tree,
]

/** Whether everything of this tree is here, so that work can be counted from it. */
export async function isWholeDiffBase(
  options: DiffOptions,
  tree: string,
  present: string,
): Promise<boolean> {
  if (!/^[0-9a-f]{40}$/.test(tree)) return false
  const listed = await diffStoreGit(options, ['ls-tree', '-r', '--name-only', tree], 1000, {
    beyond: 'count',
  })
  const compared = await diffStoreGit(
    options,
    ['diff', '--numstat', ...rangeOf(tree, present)],
    1000,
    {
      beyond: 'count',
    },
  )
  return listed.code === 0 && compared.code === 0
}

const statuses: Record<string, DiffReport['files'][number]['status']> = {
  A: 'added',
  D: 'deleted',
  R: 'renamed',
  C: 'added',
}

/**
 * `--raw --numstat -z`: first all raw records (":modes hashes status" path [path]), then all counts ("n\tn\tpath", or
 * with two paths after it).
 */
function parseFiles(output: string): DiffReport['files'] {
  const fields = output.split('\0')
  const files = new Map<string, DiffReport['files'][number]>()
  for (let index = 0; index < fields.length;) {
    const field = fields[index++] as string
    if (field.startsWith(':')) {
      const letter = field.split(' ')[4]?.[0] ?? 'M'
      let path = fields[index++] ?? ''
      if (letter === 'R' || letter === 'C') path = fields[index++] ?? ''
      files.set(path, { path, status: statuses[letter] ?? 'modified', additions: 0, deletions: 0 })
    } else if (field.includes('\t')) {
      const [additions = '', deletions = '', name = ''] = field.split('\t')
      if (name === '') index += 1
      const file = files.get(name === '' ? (fields[index++] ?? '') : name)
      if (file)
        Object.assign(file, {
          additions: Number(additions) || 0,
          deletions: Number(deletions) || 0,
        })
    }
  }
  return [...files.values()]
}
