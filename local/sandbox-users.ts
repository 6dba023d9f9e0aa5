import { execFile, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  constants,
  copyFileSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { binary } from './binaries.ts'
import { startTime } from './processes.ts'
import { linkNew } from './state.ts'

const run = promisify(execFile)

/** First and last. */
export type Uids = readonly [number, number]

const firstUid = 21_000
const blockSize = 1000
const blocks = 40

/** Where sandboxes live, and which binaries their processes use. */
export interface SandboxPlace {
  root: string
  opencode: string
  /** Folder with ripgrep. */
  path: string[]
  /** undefined: sandboxes run as the stack's own user. */
  uids: Uids | undefined
  /** Why they do not run as users of their own, when they could be expected to. */
  warning: string | undefined
}

/** As root every sandbox gets a user of its own, if that user can reach what it needs. */
export async function findSandboxPlace(
  stateDir: string,
  uids: Uids | undefined,
): Promise<SandboxPlace> {
  const own = ownUserPlace(stateDir)
  if (process.getuid?.() !== 0) return own
  if (uids === undefined) return { ...own, warning: 'every range of user ids is taken' }
  const failures: string[] = []
  for (const parent of new Set([tmpdir(), '/tmp', '/var/tmp'])) {
    try {
      return { ...(await preparePlace(stateDir, parent, uids)), uids, warning: undefined }
    } catch (error) {
      failures.push((error as Error).message)
    }
  }
  return { ...own, warning: failures.join('; ') }
}

function ownUserPlace(stateDir: string): SandboxPlace {
  return {
    root: join(stateDir, 'sandboxes'),
    opencode: binary('opencode'),
    path: [dirname(binary('rg'))],
    uids: undefined,
    warning: undefined,
  }
}

/** The folder outside the (closed) state folder that other users may pass through. */
export function openFolder(stateDir: string, parent = tmpdir()): string {
  const hash = createHash('sha256').update(stateDir).digest('hex').slice(0, 12)
  return join(parent, `gantry-${hash}`)
}

async function preparePlace(stateDir: string, parent: string, uids: Uids) {
  const folder = openFolder(stateDir, parent)
  makeOwnFolder(folder)
  const root = join(folder, 'sandboxes')
  makeOwnFolder(root)
  const opencode = reachableBinary(binary('opencode'), join(folder, 'bin', 'opencode'), uids[1])
  const rg = reachableBinary(binary('rg'), join(folder, 'bin', 'rg'), uids[1])
  if (!canAs(uids[1], 'cd "$1"', root))
    throw new Error(`"${root}" cannot be reached by another user`)
  await proveOpenCode(opencode, folder, uids[1])
  return { root, opencode, path: [dirname(rg)] }
}

// The parent may be writable by everyone: what somebody else made there is not used.
function makeOwnFolder(path: string): void {
  mkdirSync(path, { recursive: true, mode: 0o711 })
  const found = lstatSync(path)
  if (!found.isDirectory() || found.uid !== process.getuid?.()) {
    throw new Error(`"${path}" belongs to somebody else`)
  }
  chmodSync(path, 0o711)
}

/** The binary itself if the user can run it there (not below a 0700 folder), else a link or copy that it can. */
function reachableBinary(source: string, target: string, uid: number): string {
  if (canAs(uid, 'test -x "$1"', source)) return source
  makeOwnFolder(dirname(target))
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
  const proof = join(claimFolder(), `proved-${name}`)
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

function claimFolder(): string {
  const path = '/tmp/gantry-users'
  makeOwnFolder(path)
  chmodSync(path, 0o700)
  return path
}

export interface UidClaim {
  uids: Uids
  release: () => void
}

/** A range of user ids that no other stack on this machine uses; undefined: not as root, or none is free. */
export function claimUids(): UidClaim | undefined {
  if (process.getuid?.() !== 0) return undefined
  const folder = claimFolder()
  const mine = `${process.pid} ${startTime(process.pid)}`
  for (let block = 0; block < blocks; block += 1) {
    const uids = [firstUid + block * blockSize, firstUid + (block + 1) * blockSize - 1] as const
    const path = join(folder, String(uids[0]))
    if (isKnownUser(uids)) continue
    if (existsSync(path) && !isHeld(path)) rmSync(path, { force: true })
    try {
      linkNew(path, mine)
    } catch {
      continue
    }
    return { uids, release: () => rmSync(path, { force: true }) }
  }
  return undefined
}

function isHeld(path: string): boolean {
  try {
    const [pid, startedAt] = readFileSync(path, 'utf8').split(' ')
    return startTime(Number(pid)) === startedAt
  } catch {
    return false
  }
}

function isKnownUser([first, last]: Uids): boolean {
  return readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => Number(line.split(':')[2]))
    .some((uid) => uid >= first && uid <= last)
}
