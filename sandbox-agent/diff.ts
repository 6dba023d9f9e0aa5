import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { type DiffReport, maxDiffBytes } from '../src/contract/diff.ts'
import type { Owner } from './folder.ts'

const maxFiles = 500
const timeoutMs = 60_000
const emptyTree = '4b825dc642cb6eb9a060e54bf8d69288fbee4904'

export interface DiffOptions {
  workspace: string
  /** A git folder of our own: the repository's config, hooks and filters are the repository's code, and are not run. */
  gitDir: string
  owner: Owner | undefined
  environment: Record<string, string>
  /** Paths, relative to the workspace, that are Gantry's own. */
  excluded: string[]
}

/** The tree that the work starts from: what a snapshot brought uncommitted is not this sandbox's doing. */
export async function readBaseTree(options: DiffOptions): Promise<string> {
  const tree = await workTree(options)
  return /^[0-9a-f]{40}$/.test(tree) ? tree : emptyTree
}

/** Everything that differs from the base, untracked files too. */
export async function takeDiff(
  options: DiffOptions,
  baseTree: string,
  maxBytes = maxDiffBytes,
): Promise<DiffReport> {
  const tree = await workTree(options)
  const range = ['--no-color', '--no-ext-diff', '--no-textconv', '--find-renames', baseTree, tree]
  const status = await git(options, ['diff', '--raw', '--numstat', '-z', ...range], 4 * 1024 * 1024)
  const patch = await git(options, ['diff', ...range], maxBytes)
  const files = parseFiles(status.output)
  return {
    patch: patch.output,
    files: files.slice(0, maxFiles),
    truncated: patch.truncated || status.truncated || files.length > maxFiles,
  }
}

/** The files as they are now, as a tree in a store of our own. */
async function workTree(options: DiffOptions): Promise<string> {
  await prepare(options)
  const excluded = options.excluded.map((path) => `:(exclude,literal)${path}`)
  await git(options, ['add', '--all', '--ignore-errors', '--', '.', ...excluded], 1000)
  return (await git(options, ['write-tree'], 200)).output.trim()
}

function git(options: DiffOptions, args: string[], limit: number) {
  const { gitDir, workspace } = options
  const place = [`--git-dir=${gitDir}`, `--work-tree=${workspace}`]
  return run(options, 'git', [...place, ...safeSettings, ...args], limit)
}

const safeSettings = [
  'core.fsmonitor=false',
  'core.hooksPath=/dev/null',
  'core.quotePath=false',
  'core.autocrlf=false',
].flatMap((setting) => ['-c', setting])

// Every step is a child under the sandbox's user: the folder is the sandbox's, so the agent itself writes nothing there.
async function prepare(options: DiffOptions): Promise<void> {
  const { gitDir, workspace } = options
  if (existsSync(`${gitDir}/HEAD`)) return
  await run(options, 'git', ['init', '--quiet', '--bare', '--template=', gitDir], 1000)
  // With the repository's own index, files that have not changed need not be read again.
  await run(options, 'cp', [`${workspace}/.git/index`, `${gitDir}/index`], 1000)
}

function run(
  options: DiffOptions,
  command: string,
  args: string[],
  maxBytes: number,
): Promise<{ output: string; truncated: boolean }> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd: options.workspace,
      env: {
        ...options.environment,
        GIT_CONFIG_NOSYSTEM: '1',
        GIT_CONFIG_GLOBAL: '/dev/null',
        GIT_TERMINAL_PROMPT: '0',
        GIT_ALTERNATE_OBJECT_DIRECTORIES: `${options.workspace}/.git/objects`,
      },
      stdio: ['ignore', 'pipe', 'ignore'],
      ...options.owner,
    })
    const timer = setTimeout(() => child.kill('SIGKILL'), timeoutMs)
    const chunks: Buffer[] = []
    let bytes = 0
    child.stdout.on('data', (chunk: Buffer) => {
      chunks.push(chunk)
      bytes += chunk.length
      if (bytes > maxBytes) child.kill('SIGKILL')
    })
    child.on('error', reject)
    child.on('close', () => {
      clearTimeout(timer)
      resolve({ output: cut(Buffer.concat(chunks), maxBytes), truncated: bytes > maxBytes })
    })
  })
}

// At a line's end, so that no character is cut in two.
function cut(bytes: Buffer, maxBytes: number): string {
  if (bytes.length <= maxBytes) return bytes.toString('utf8')
  const end = bytes.lastIndexOf(10, maxBytes - 1)
  return bytes.toString('utf8', 0, end === -1 ? 0 : end + 1)
}

const statuses: Record<string, DiffReport['files'][number]['status']> = {
  A: 'added',
  D: 'deleted',
  R: 'renamed',
  C: 'added',
}

/** `--raw --numstat -z`: first all raw records (":modes hashes status" path [path]), then all counts ("n\tn\tpath", or with two paths after it). */
export function parseFiles(output: string): DiffReport['files'] {
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
