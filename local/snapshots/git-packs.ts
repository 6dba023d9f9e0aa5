import { spawn } from 'node:child_process'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import type { SecretSearch } from '../../src/core/redaction/finder.ts'
import { signalMarked } from '../../sandbox-agent/marked-processes.ts'
import type { GitLine } from './pack-walls.ts'
import { Refusal } from './refusal.ts'

interface PackHit {
  /** The secret's. */
  name: string
  object: string
}

/** Every object of the packs in the folder, unpacked. `scratch` can be seen where git runs. */
export async function searchPacks(
  packs: string,
  scratch: string,
  begin: () => SecretSearch,
  signal: AbortSignal,
  line: GitLine,
): Promise<PackHit | null> {
  const unpack = ['cat-file', '--batch-all-objects', '--unordered', '--batch']
  const { file, args, owner } = await line(unpack)
  const git = spawn(file, args, {
    env: {
      PATH: process.env['PATH'] ?? '/usr/bin:/bin',
      GIT_DIR: makeGitDir(packs, scratch),
      GIT_CONFIG_NOSYSTEM: '1',
      GIT_CONFIG_GLOBAL: '/dev/null',
      // Of whose packs these are nothing follows: there is no setting of theirs.
      ...{ GIT_CONFIG_COUNT: '1', GIT_CONFIG_KEY_0: 'safe.directory', GIT_CONFIG_VALUE_0: '*' },
    },
    cwd: '/',
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
    ...owner,
  })
  // With all that stands between.
  const end = () => git.pid !== undefined && signalMarked(-git.pid, 'SIGKILL')
  signal.addEventListener('abort', end, { once: true })
  let complaint = ''
  git.stderr.on('data', (text: Buffer) => (complaint = (complaint + text.toString()).slice(0, 300)))
  const ended = new Promise<number | null>((resolve, reject) => {
    git.once('error', reject)
    git.once('close', resolve)
  })
  ended.catch(() => undefined) // looked at below, after the output
  const reader = createBatchReader(begin)
  for await (const chunk of git.stdout as AsyncIterable<Buffer>) {
    signal.throwIfAborted()
    const hit = reader.push(chunk)
    if (hit === null) continue
    end()
    return hit
  }
  signal.throwIfAborted()
  const code = await ended
  // A pack that cannot be read may hold a secret. If git cannot read an index, it complains and still ends with 0.
  if (code !== 0 || /^(error|fatal):/m.test(complaint))
    throw new Refusal('unprocessable', `Cannot search git's packs: ${complaint.trim()}`)
  return null
}

/**
 * A repository of our own around the packs: the settings in the copied one are not to be trusted, nor its alternates.
 */
function makeGitDir(packs: string, scratch: string): string {
  const gitDir = mkdtempSync(join(scratch, 'git-'))
  chmodSync(gitDir, 0o755) // read by the sandbox's user
  mkdirSync(join(gitDir, 'objects'))
  mkdirSync(join(gitDir, 'refs'))
  symlinkSync(packs, join(gitDir, 'objects', 'pack'))
  writeFileSync(join(gitDir, 'HEAD'), 'ref: refs/heads/main\n')
  const format = usesSha256(join(dirname(dirname(packs)), 'config'))
    ? '[core]\n  repositoryformatversion = 1\n[extensions]\n  objectformat = sha256\n'
    : '[core]\n  repositoryformatversion = 0\n'
  writeFileSync(join(gitDir, 'config'), format)
  return gitDir
}

function usesSha256(config: string): boolean {
  try {
    return /^\s*objectformat\s*=\s*sha256/im.test(readFileSync(config, 'utf8'))
  } catch {
    return false
  }
}

/** Reads `<object> <type> <size>\n<content>\n` over and over, in pieces of any size. */
function createBatchReader(begin: () => SecretSearch): { push(chunk: Buffer): PackHit | null } {
  let header = ''
  let object = ''
  let left = 0
  let search: SecretSearch | null = null
  const push = (chunk: Buffer): PackHit | null => {
    let at = 0
    while (at < chunk.length) {
      if (search === null) {
        const end = chunk.indexOf(10, at)
        header += chunk.toString('latin1', at, end === -1 ? chunk.length : end)
        if (end === -1) return null
        at = end + 1
        const [id = '', , size] = header.split(' ')
        header = ''
        if (size === undefined) continue // `<object> missing`
        object = id
        left = Number(size)
        search = begin()
      } else if (left > 0) {
        const content = chunk.subarray(at, at + left)
        at += content.length
        left -= content.length
        const name = search.push(content)
        if (name !== null) return { name, object }
      } else {
        at += 1 // the line end after the content
        search = null
      }
    }
    return null
  }
  return { push }
}
