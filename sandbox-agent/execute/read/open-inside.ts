import {
  closeSync,
  constants,
  fstatSync,
  openSync,
  readlinkSync,
  realpathSync,
  type Stats,
  statSync,
} from 'node:fs'
import { resolve, sep } from 'node:path'
import type { Site } from '../run/site.ts'

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants
const onLinux = process.platform === 'linux'
/** Names a file without opening it: a device, a pipe or a magic file outside is not touched by looking where it is. */
const O_PATH = 0o10000000

/**
 * Something inside the workspace, held by a descriptor: whatever its path leads to later, this is what was looked at.
 */
export interface Inside {
  stat: Stats
  /** Under which it can be opened again, and be no other. */
  path: string
}

/** Where an operation may read: in the workspace, and in the session paths. */
export interface Boundary {
  site: Site
  /** Absolute. Taken as spelled: the sandbox's user may have put a symlink somewhere on the way. */
  sessionPaths: readonly string[]
}

/**
 * First held, then compared with the workspace by its real path. Symlinks are followed, and what leads out of the
 * workspace is refused; a folder that is swapped for a symlink in between changes nothing about what is held.
 */
export function openInside<T>(
  { site, sessionPaths }: Boundary,
  target: string,
  work: (inside: Inside) => T,
): T {
  const path = resolve(site.workspace, target)
  const spelled = [site.workspace, realpathSync(site.workspace), ...sessionPaths]
  if (!spelled.some((each) => isWithin(path, each)))
    throw new Error(`Cannot read "${target}": it is outside the workspace`)
  const within = [realWorkspace(site), ...sessionPaths]
  const fd = hold(path, target)
  try {
    const stat = fstatSync(fd)
    const real = realPathOf(fd, path, stat)
    if (!within.some((each) => isWithin(real, each)))
      throw new Error(`Cannot read "${target}": it leads out of the workspace`)
    if (!mayRead(stat, site)) throw new Error(`Cannot read "${target}": the sandbox's user may not`)
    return work({ stat, path: onLinux ? `/proc/self/fd/${fd}` : path })
  } finally {
    closeSync(fd)
  }
}

function hold(path: string, target: string): number {
  try {
    return openSync(path, onLinux ? O_PATH : O_RDONLY | O_NONBLOCK)
  } catch (error) {
    throw new Error(`Cannot read "${target}": ${reasonOf(error)}`, { cause: error })
  }
}

const reasons: Record<string, string> = {
  ENOENT: 'there is no such file',
  ENOTDIR: 'there is no such file',
  ELOOP: 'its symlinks lead nowhere',
  EACCES: 'it may not be read',
}
const reasonOf = (error: unknown) => {
  const { code = '', message } = error as NodeJS.ErrnoException
  return reasons[code] ?? message
}

/**
 * Refuses a workspace that was moved: if the sandbox's user owns the folder above it, it could put a symlink there
 * instead.
 */
function realWorkspace({ workspace, home }: Site): string {
  const fd = openSync(workspace, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
  try {
    const real = realPathOf(fd, workspace, fstatSync(fd))
    if (isWithin(workspace, home) && !isWithin(real, realpathSync(home)))
      throw new Error('Cannot read: the workspace is no longer where it was')
    return real
  } finally {
    closeSync(fd)
  }
}

function realPathOf(fd: number, path: string, stat: Stats): string {
  if (onLinux) return readlinkSync(`/proc/self/fd/${fd}`)
  const real = realpathSync(path)
  const found = statSync(real)
  if (found.dev !== stat.dev || found.ino !== stat.ino)
    throw new Error(`Cannot read "${path}": it was replaced meanwhile`)
  return real
}

const isWithin = (path: string, folder: string) =>
  path === folder || path.startsWith(`${folder}${sep}`)

/** The agent may be root, and root may read a hard link to anything. */
function mayRead(stat: Stats, { owner }: Site): boolean {
  if (owner === undefined || process.getuid?.() !== 0) return true
  if (stat.uid === owner.uid) return (stat.mode & 0o400) !== 0
  return (stat.mode & (stat.gid === owner.gid ? 0o040 : 0o004)) !== 0
}
