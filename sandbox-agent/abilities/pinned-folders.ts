// The folders of abilities that the session has pinned: scripts find theirs at $ABILITY_DIR. Each lies in the agent's own
// folder, where OpenCode may not write, and is compared with its hash before every use, since where agent and OpenCode
// are one user nothing but the walls keeps anybody from changing it. The executor asks for it before a script runs.

import { createHash, randomBytes } from 'node:crypto'
import { chmodSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import {
  type AbilityFile,
  folderHashText,
  type PinnedFolder,
} from '../../src/contract/ability-folder.ts'
import { Folder } from '../workspace/folder.ts'

interface PinnedFoldersOptions {
  /** Of the sandbox's layout; there from the first start of OpenCode on. */
  root: () => string
  fetch: (hash: string) => Promise<PinnedFolder>
}

/** A session pins few; each may have 4 MiB. */
const maxFolders = 20

export class PinnedFolders {
  readonly #options: PinnedFoldersOptions
  #last: Promise<unknown> = Promise.resolve()

  constructor(options: PinnedFoldersOptions) {
    this.#options = options
  }

  /** Where it is, exactly as it was pinned. */
  readonly ensure = (hash: string): Promise<string> => {
    // One after the other: two scripts that begin together want the same folder.
    const done = this.#last.then(() => this.#ensure(hash))
    this.#last = done.catch(() => undefined)
    return done
  }

  async #ensure(hash: string): Promise<string> {
    const root = this.#options.root()
    const path = join(root, pinnedFolderName(hash))
    if (isAsPinned(root, hash)) return path
    const { files } = await this.#options.fetch(hash)
    if (hashOf(files) !== hash) throw new Error(`Cannot run: ability ${hash} came with other files`)
    mkdirSync(root, { recursive: true, mode: 0o755 })
    removeOthers(root)
    const fresh = `${path}.${randomBytes(6).toString('hex')}`
    for (const file of files) write(fresh, file)
    rmSync(path, { recursive: true, force: true })
    renameSync(fresh, path)
    return path
  }
}

/** The control plane names it so, too. */
const pinnedFolderName = (hash: string): string => hash.slice(0, 32)

/**
 * A command that was made for the sandbox before this one names the folder that was there: here it names the one that is.
 * Both are plain words for a shell, or nothing is changed.
 */
export function withPinnedFolder(command: string, told: string | undefined, real: string): string {
  const isPlain = (path: string) => /^\/[\w@.+/-]+$/.test(path)
  if (told === undefined || told === real || !isPlain(told) || !isPlain(real)) return command
  return command.replaceAll(`${told}/`, () => `${real}/`)
}

/** What is uploaded has no mode; whatever is in it may be a script. */
function write(folder: string, { path, content }: AbilityFile): void {
  const whole = join(folder, path)
  mkdirSync(dirname(whole), { recursive: true, mode: 0o755 })
  writeFileSync(whole, content, { flag: 'wx' })
  chmodSync(whole, 0o555)
}

function removeOthers(root: string): void {
  const names = readdirSync(root)
  if (names.length < maxFolders) return
  for (const name of names) rmSync(join(root, name), { recursive: true, force: true })
}

const sha256 = (content: string | Buffer) => createHash('sha256').update(content).digest('hex')

const hashOf = (files: readonly AbilityFile[]): string =>
  sha256(folderHashText(files.map(({ path, content }) => ({ path, sha256: sha256(content) }))))

/** A link to files that are the same now is not: somebody else may change them. */
function isAsPinned(root: string, hash: string): boolean {
  let folder: Folder | undefined
  try {
    const top = Folder.open(root)
    folder = top.enter(pinnedFolderName(hash))
    top.close()
    return folder !== undefined && sha256(folderHashText(filesIn(folder, ''))) === hash
  } catch {
    return false
  } finally {
    folder?.close()
  }
}

/** Throws at whatever is no plain file or folder: nothing of the kind was written. */
function filesIn(folder: Folder, prefix: string): { path: string; sha256: string }[] {
  return folder.entries().flatMap(({ name }) => {
    const inner = folder.enter(name)
    if (inner) {
      const found = filesIn(inner, `${prefix}${name}/`)
      inner.close()
      return found
    }
    const content = folder.read(name, { maxBytes: 4 * 1024 * 1024 })
    if (!Buffer.isBuffer(content)) throw new Error(`"${name}" is not as it was written`)
    return [{ path: `${prefix}${name}`, sha256: sha256(content) }]
  })
}
