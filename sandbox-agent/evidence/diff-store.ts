import { existsSync } from 'node:fs'
import type { Run as RunInside } from '../enclosure/reader.ts'

const timeoutMs = 60_000

export interface DiffOptions {
  workspace: string
  /** A git folder of our own: the repository's config, hooks and filters are the repository's code, and are not run. */
  gitDir: string
  /** Inside the walls: nothing of this folder is read or written by the agent itself. */
  run: RunInside
  environment: Record<string, string>
  /** Paths, relative to the workspace, that are Gantry's own. */
  excluded: string[]
  /** How long the files of repositories inside the workspace may take. */
  nestedTimeoutMs?: number
}

export function diffStoreGit(
  options: DiffOptions,
  args: string[],
  limit: number,
  more: { beyond?: 'count'; timeoutMs?: number | undefined } = {},
): Promise<Run> {
  const { gitDir, workspace } = options
  const place = [`--git-dir=${gitDir}`, `--work-tree=${workspace}`]
  return run(options, 'git', [...place, ...safeSettings, ...args], limit, more)
}

const safeSettings = ['core.quotePath=false', 'core.autocrlf=false'].flatMap((setting) => [
  '-c',
  setting,
])

// Everything is done by child processes of the sandbox's user: the folder is the sandbox's, so the agent itself writes
// nothing there.
export async function prepareDiffStore(options: DiffOptions): Promise<void> {
  const { gitDir, workspace } = options
  await unlockDiffStore(options)
  if (existsSync(`${gitDir}/HEAD`)) return
  await run(options, 'git', ['init', '--quiet', '--bare', '--template=', gitDir], 1000)
  // With the repository's own index, files that have not changed need not be read again.
  await run(options, 'cp', [`${workspace}/.git/index`, `${gitDir}/index`], 1000)
  // As hard links, so that what the work began with is still here if the repository is removed or packed anew. Where
  // there are none, it is read from the repository as long as that is there.
  await run(options, 'cp', ['-al', `${workspace}/.git/objects/.`, `${gitDir}/objects`], 1000)
  await run(options, 'sh', ['-c', 'echo "* -diff" > "$1/opaque"', 'sh', gitDir], 1000)
}

/** Left by a git that was killed, or by a snapshot of that moment: nobody else uses this store. */
export async function unlockDiffStore(options: DiffOptions): Promise<void> {
  const lock = `${options.gitDir}/index.lock`
  if (existsSync(lock)) await run(options, 'rm', ['-f', lock], 1000)
}

/** The next look at the files reads each of them. */
export async function forgetDiffIndex(options: DiffOptions): Promise<void> {
  await run(options, 'rm', ['-f', `${options.gitDir}/index`], 1000)
}

interface Run {
  /** At most the limit, in whole lines. */
  output: string
  truncated: boolean
  raw: Buffer
  /** Of all output, also of what is not kept. */
  bytes: number
  code: number | null
}

/** What is longer than the limit is ended, or counted to its end. */
async function run(
  options: DiffOptions,
  command: string,
  args: string[],
  maxBytes: number,
  more: { beyond?: 'count'; timeoutMs?: number | undefined } = {},
): Promise<Run> {
  const ran = await options.run(command, args, {
    folder: options.workspace,
    environment: {
      ...options.environment,
      GIT_ALTERNATE_OBJECT_DIRECTORIES: `${options.workspace}/.git/objects`,
    },
    maxBytes: maxBytes + 1,
    beyond: more.beyond,
    timeoutMs: more.timeoutMs ?? timeoutMs,
  })
  const { output: raw, bytes, code } = ran
  return { output: cut(raw, maxBytes), truncated: bytes > maxBytes, raw, bytes, code }
}

// At a line's end, so that no character is cut in two.
function cut(bytes: Buffer, maxBytes: number): string {
  if (bytes.length <= maxBytes) return bytes.toString('utf8')
  const end = bytes.lastIndexOf(10, maxBytes - 1)
  return bytes.toString('utf8', 0, end === -1 ? 0 : end + 1)
}
