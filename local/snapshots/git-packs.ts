import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { SecretSearch } from '../../src/core/redaction/finder.ts'
import { Refusal } from './refusal.ts'

interface PackHit {
  /** The secret's. */
  name: string
  object: string
}

/** Every object of the packs in the folder, unpacked. */
export async function searchPacks(
  packs: string,
  scratch: string,
  begin: () => SecretSearch,
  signal: AbortSignal,
): Promise<PackHit | null> {
  const git = spawn('git', ['cat-file', '--batch-all-objects', '--unordered', '--batch'], {
    env: {
      PATH: process.env['PATH'] ?? '/usr/bin:/bin',
      GIT_DIR: makeGitDir(packs, scratch),
      GIT_CONFIG_NOSYSTEM: '1',
      GIT_CONFIG_GLOBAL: '/dev/null',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
    signal,
    killSignal: 'SIGKILL',
  })
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
    git.kill('SIGKILL')
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
