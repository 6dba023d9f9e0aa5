// User ids for sandboxes, when the stack runs as root. A stack claims a range that no other stack of this machine uses,
// and each sandbox gets the next user of it, so that sandboxes can neither read nor signal each other. The stack
// claims, the sandboxes take, the guardian ends what a range has left running.

import { execFile, spawnSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
} from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { findProcesses, processStartTime } from '../processes/processes.ts'
import { linkPrivateFile, writePrivateFile } from '../state/private-files.ts'

const run = promisify(execFile)

/** First and last. */
export type Uids = readonly [number, number]

const firstUid = 21_000
const blockSize = 1000
const blocks = 40

// Everyone may write to the parent folder: a folder that somebody else made there is not used.
export function makeUidFolder(path: string): void {
  mkdirSync(path, { recursive: true, mode: 0o711 })
  const found = lstatSync(path)
  if (!found.isDirectory() || found.uid !== process.getuid?.()) {
    throw new Error(`"${path}" belongs to somebody else`)
  }
  chmodSync(path, 0o711)
}

/** The folder in which the stacks of this machine tell each other what they use; only root can enter it. */
export function uidClaimFolder(): string {
  const path = '/tmp/gantry-users'
  makeUidFolder(path)
  chmodSync(path, 0o700)
  return path
}

interface UidClaim {
  uids: Uids
  release: () => void
}

/** A range of user ids that no other stack on this machine uses; undefined: not as root, or none is free. */
export function claimUids(): UidClaim | undefined {
  if (process.getuid?.() !== 0) return undefined
  const folder = uidClaimFolder()
  const mine = `${process.pid} ${processStartTime(process.pid)}`
  for (let block = 0; block < blocks; block += 1) {
    const uids = [firstUid + block * blockSize, firstUid + (block + 1) * blockSize - 1] as const
    const path = join(folder, String(uids[0]))
    if (isKnownUser(uids)) continue
    if (existsSync(path) && !isHeld(path)) rmSync(path, { force: true })
    try {
      linkPrivateFile(path, mine)
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
    return processStartTime(Number(pid)) === startedAt
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

/** A person (of a directory service, too) or somebody else's process: such a user is not given to a sandbox. */
function isTaken(uid: number): boolean {
  if (spawnSync('getent', ['passwd', String(uid)]).status === 0) return true
  return findProcesses({ marks: [], uids: [uid] }).length > 0
}

/**
 * The next user for a sandbox. The count goes on after a restart and with the next stack: what an earlier sandbox has
 * left in a folder that is open to all belongs to nobody else for as long as possible.
 */
export function takeUid([first, last]: Uids, used: ReadonlySet<number | undefined>): number {
  const path = join(uidClaimFolder(), `${first}.next`)
  let next = existsSync(path) ? Number(readFileSync(path, 'utf8')) : first
  for (let tries = first; tries <= last; tries += 1) {
    const uid = next >= first && next <= last ? next : first
    next = uid + 1
    if (used.has(uid) || isTaken(uid)) continue
    writePrivateFile(path, String(next))
    return uid
  }
  throw new Error(`Cannot start a sandbox: all ${last - first + 1} users are in use`)
}

const openToAll = ['/tmp', '/var/tmp', '/dev/shm']

/** What a sandbox's user has left in folders that are open to all, removed in that user's name. */
export async function clearTemporaryOfUid(uid: number): Promise<void> {
  const paths = openToAll
    .filter((folder) => existsSync(folder))
    .flatMap((folder) => readdirSync(folder).map((name) => join(folder, name)))
    .filter((path) => lstatSync(path, { throwIfNoEntry: false })?.uid === uid)
  if (paths.length === 0) return
  await run('rm', ['-rf', '--', ...paths], { uid, gid: uid }).catch(() => undefined)
}

/** The users that sandboxes under these folders have, or had: only those may be cleared of processes. */
export function usersOf(roots: readonly string[], [first, last]: Uids): number[] {
  const homes = roots
    .filter((root) => existsSync(root))
    .flatMap((root) => readdirSync(root).map((name) => join(root, name, 'home')))
  const uids = homes.filter((home) => existsSync(home)).map((home) => statSync(home).uid)
  return [...new Set(uids)].filter((uid) => uid >= first && uid <= last)
}
