// An open folder of the sandbox. What runs in the sandbox can replace any folder by a symlink at any moment. So names
// are resolved one by one against the open descriptor (through /proc on Linux), never as a path, and nothing outside
// the folder is read or written. On other systems this is a check and no guarantee. Whatever touches the sandbox's
// files goes through it.

import { randomBytes } from 'node:crypto'
import {
  closeSync,
  constants,
  type Dirent,
  fchmodSync,
  fchownSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  readSync,
  realpathSync,
  renameSync,
  rmSync,
  type Stats,
  unlinkSync,
  writeFileSync,
} from 'node:fs'

export interface Owner {
  uid: number
  gid: number
}

const { O_APPEND, O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } =
  constants
const onLinux = process.platform === 'linux'

export class Folder {
  readonly #fd: number
  readonly #path: string

  private constructor(fd: number, path: string) {
    this.#fd = fd
    this.#path = path
  }

  static open(path: string): Folder {
    return new Folder(openSync(path, O_RDONLY | O_DIRECTORY), path)
  }

  close(): void {
    closeSync(this.#fd)
  }

  /** Where the folder really is. */
  realPath(): string {
    return onLinux ? readlinkSync(`/proc/self/fd/${this.#fd}`) : realpathSync(this.#path)
  }

  /** undefined: there is none, or it is a symlink or a file. */
  enter(name: string): Folder | undefined {
    try {
      return new Folder(
        openSync(this.#at(name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW),
        `${this.#path}/${name}`,
      )
    } catch {
      return undefined
    }
  }

  /** The folder at a relative path. `make` creates what is missing; undefined: something on the way is no folder. */
  descend(names: string[], make?: { owner: Owner | undefined }): Folder | undefined {
    let folder: Folder = this.#again()
    for (const name of names) {
      if (make && !folder.stat(name)) folder.make(name, make.owner)
      const next = folder.enter(name)
      folder.close()
      if (!next) return undefined
      folder = next
    }
    return folder
  }

  make(name: string, owner: Owner | undefined): void {
    mkdirSync(this.#at(name), { mode: 0o755 })
    if (!owner) return
    // By descriptor: by now the name may be a symlink to somebody else's file.
    const fd = openSync(this.#at(name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
    try {
      fchownSync(fd, owner.uid, owner.gid)
    } finally {
      closeSync(fd)
    }
  }

  /** Of the name itself, not of what it leads to. */
  stat(name: string): Stats | undefined {
    return lstatSync(this.#at(name), { throwIfNoEntry: false })
  }

  entries(): Dirent[] {
    return readdirSync(onLinux ? `/proc/self/fd/${this.#fd}` : this.#path, { withFileTypes: true })
  }

  /** undefined: no regular file, larger than the limit, or not inside `within`. Never waits on a pipe. */
  read(
    name: string,
    limits: { maxBytes: number; within?: string },
  ): Buffer | 'too large' | undefined {
    let fd: number
    try {
      fd = openSync(this.#at(name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
    } catch {
      return undefined
    }
    try {
      const stat = fstatSync(fd)
      if (!stat.isFile()) return undefined
      if (stat.size > limits.maxBytes) return 'too large'
      if (
        limits.within !== undefined &&
        onLinux &&
        !readlinkSync(`/proc/self/fd/${fd}`).startsWith(`${limits.within}/`)
      ) {
        return undefined
      }
      const content = readFileSync(fd)
      return content.length > limits.maxBytes ? 'too large' : content
    } finally {
      closeSync(fd)
    }
  }

  /** Its first bytes, or its last; undefined: no regular file. */
  readSome(name: string, side: 'first' | 'last', maxBytes: number): Buffer | undefined {
    const fd = openSync(this.#at(name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
    try {
      const stat = fstatSync(fd)
      if (!stat.isFile()) return undefined
      const some = Buffer.alloc(Math.min(maxBytes, stat.size))
      const at = side === 'first' ? 0 : stat.size - some.length
      return some.subarray(0, readSync(fd, some, 0, some.length, at))
    } finally {
      closeSync(fd)
    }
  }

  /** Whole or not at all; replaces a symlink instead of writing through it. */
  write(name: string, content: string, mode: number, owner: Owner | undefined): void {
    const temporary = `.gantry-${randomBytes(6).toString('hex')}`
    const fd = openSync(this.#at(temporary), O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW, 0o600)
    try {
      writeFileSync(fd, content)
      if (owner) fchownSync(fd, owner.uid, owner.gid)
      fchmodSync(fd, mode)
      renameSync(this.#at(temporary), this.#at(name))
    } catch (error) {
      unlinkSync(this.#at(temporary))
      throw error
    } finally {
      closeSync(fd)
    }
  }

  /** A descriptor that writes at the end of the file, which is made if there is none; never through a symlink. */
  append(name: string, mode: number, owner: Owner | undefined): number {
    const flags = O_CREAT | O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK
    const fd = openSync(this.#at(name), flags, mode)
    try {
      if (!fstatSync(fd).isFile()) throw new Error('it is no regular file')
      if (owner) fchownSync(fd, owner.uid, owner.gid)
      return fd
    } catch (error) {
      closeSync(fd)
      throw error
    }
  }

  remove(name: string): void {
    rmSync(this.#at(name), { recursive: true, force: true })
  }

  #again(): Folder {
    return new Folder(openSync(this.#at('.'), O_RDONLY | O_DIRECTORY), this.#path)
  }

  #at(name: string): string {
    return onLinux ? `/proc/self/fd/${this.#fd}/${name}` : `${this.#path}/${name}`
  }
}
