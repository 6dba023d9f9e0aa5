import { spawnSync } from 'node:child_process'
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
import { findProcesses, startTime } from './processes.ts'
import { linkNew } from './state.ts'

/** First and last. */
export type Uids = readonly [number, number]

const firstUid = 21_000
const blockSize = 1000
const blocks = 40

// The parent may be writable by everyone: what somebody else made there is not used.
export function makeOwnFolder(path: string): void {
  mkdirSync(path, { recursive: true, mode: 0o711 })
  const found = lstatSync(path)
  if (!found.isDirectory() || found.uid !== process.getuid?.()) {
    throw new Error(`"${path}" belongs to somebody else`)
  }
  chmodSync(path, 0o711)
}

/** For what stacks of this machine tell each other; root's alone. */
export function claimFolder(): string {
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

/** A person (of a directory service, too) or somebody else's process: such a user is not given to a sandbox. */
export function isTaken(uid: number): boolean {
  if (spawnSync('getent', ['passwd', String(uid)]).status === 0) return true
  return findProcesses({ marks: [], uids: [uid] }).length > 0
}

/** The users that sandboxes under these folders have, or had: only those may be cleared of processes. */
export function usersOf(roots: readonly string[], [first, last]: Uids): number[] {
  const homes = roots
    .filter((root) => existsSync(root))
    .flatMap((root) => readdirSync(root).map((name) => join(root, name, 'home')))
  const uids = homes.filter((home) => existsSync(home)).map((home) => statSync(home).uid)
  return [...new Set(uids)].filter((uid) => uid >= first && uid <= last)
}
