// Chooses where sandboxes live on this machine and which binaries they use. As root each sandbox gets a user of its
// own, but only if such a user can reach the folder and has run OpenCode once; otherwise sandboxes run as the stack's
// own user, and the site says why. The stack calls it at its start.

import { execFile, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  constants,
  copyFileSync,
  existsSync,
  linkSync,
  mkdtempSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { binary } from '../binaries.ts'
import { uidClaimFolder, makeUidFolder, type Uids } from './uids.ts'

const run = promisify(execFile)

/** Where sandboxes live, and which binaries their processes use. */
export interface SandboxSite {
  root: string
  opencode: string
  /** Folder with ripgrep. */
  path: string[]
  /** undefined: sandboxes run as the stack's own user. */
  uids: Uids | undefined
  /** Why they do not run as users of their own, when they could be expected to. */
  warning: string | undefined
}

export async function findSandboxSite(
  stateDir: string,
  uids: Uids | undefined,
): Promise<SandboxSite> {
  const own = ownUserSite(stateDir)
  if (process.getuid?.() !== 0) return own
  if (uids === undefined) return { ...own, warning: 'every range of user ids is taken' }
  const failures: string[] = []
  for (const folder of siteFolders(stateDir)) {
    try {
      return { ...(await prepareSite(folder, uids)), uids, warning: undefined }
    } catch (error) {
      failures.push((error as Error).message)
    }
  }
  return { ...own, warning: failures.join('; ') }
}

function ownUserSite(stateDir: string): SandboxSite {
  return {
    root: join(stateDir, 'sandboxes'),
    opencode: binary('opencode'),
    path: [dirname(binary('rg'))],
    uids: undefined,
    warning: undefined,
  }
}

/** Where a folder may be that other users can pass through: the state folder is closed to them. In order of choice. */
export function siteFolders(stateDir: string): string[] {
  const hash = createHash('sha256').update(stateDir).digest('hex').slice(0, 12)
  return [...new Set([tmpdir(), '/tmp', '/var/tmp'])].map((parent) =>
    join(parent, `gantry-${hash}`),
  )
}

/** In an open folder. */
export const sandboxRootIn = (folder: string): string => join(folder, 'sandboxes')

async function prepareSite(folder: string, uids: Uids) {
  makeUidFolder(folder)
  const root = sandboxRootIn(folder)
  makeUidFolder(root)
  const opencode = reachableBinary(binary('opencode'), join(folder, 'bin', 'opencode'), uids[1])
  const rg = reachableBinary(binary('rg'), join(folder, 'bin', 'rg'), uids[1])
  if (!canAs(uids[1], 'cd "$1"', root))
    throw new Error(`"${root}" cannot be reached by another user`)
  await proveOpenCode(opencode, folder, uids[1])
  return { root, opencode, path: [dirname(rg)] }
}

/** The binary itself if the user can run it there (not below a 0700 folder), else a link or copy that it can. */
function reachableBinary(source: string, target: string, uid: number): string {
  if (canAs(uid, 'test -x "$1"', source)) return source
  makeUidFolder(dirname(target))
  if (!isSameFile(source, target)) {
    rmSync(target, { force: true })
    try {
      linkSync(source, target)
    } catch {
      copyFileSync(source, target, constants.COPYFILE_FICLONE) // another file system
      chmodSync(target, 0o755)
    }
  }
  if (canAs(uid, 'test -x "$1"', target)) return target
  throw new Error(`"${target}" cannot be run by another user`)
}

function isSameFile(source: string, target: string): boolean {
  if (!existsSync(target)) return false
  const [a, b] = [statSync(source), statSync(target)]
  return a.ino === b.ino || (a.size === b.size && b.mtimeMs >= a.mtimeMs)
}

function canAs(uid: number, test: string, path: string): boolean {
  const env = { PATH: '/usr/bin:/bin' }
  return spawnSync('/bin/sh', ['-c', test, 'sh', path], { uid, gid: uid, env }).status === 0
}

// Takes about a second, so its success is remembered per binary.
async function proveOpenCode(opencode: string, folder: string, uid: number): Promise<void> {
  const { size, mtimeMs } = statSync(opencode)
  const name = createHash('sha256')
    .update(`${opencode}:${size}:${mtimeMs}`)
    .digest('hex')
    .slice(0, 16)
  const proof = join(uidClaimFolder(), `proved-${name}`)
  if (existsSync(proof)) return
  const home = mkdtempSync(join(folder, 'probe-'))
  try {
    chownSync(home, uid, uid)
    const env = { PATH: '/usr/bin:/bin', HOME: home, OPENCODE_DISABLE_AUTOUPDATE: '1' }
    await run(opencode, ['--version'], { uid, gid: uid, env, cwd: home, timeout: 30_000 })
    writeFileSync(proof, '')
  } catch (error) {
    throw new Error(`OpenCode does not run as user ${uid}: ${(error as Error).message}`, {
      cause: error,
    })
  } finally {
    rmSync(home, { recursive: true, force: true })
  }
}
