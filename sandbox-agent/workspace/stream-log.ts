// The log of an attempt of an eval run: a file in the workspace that gets every event of the turn as a line of JSON while
// OpenCode works, the same that goes up the link. If it cannot be made, the attempt goes on without it and one notice
// says so. It lies where what runs in the sandbox can reach it, so no symlink is followed. The agent owns it.

import { closeSync, writeSync } from 'node:fs'
import { isAbsolute, relative } from 'node:path'
import { log, messageOf } from '../log.ts'
import type { Emit } from '../memory/spool.ts'
import { Folder, type Owner } from './folder.ts'

const maxBytes = 64 * 1024 * 1024

interface Place {
  workspace: string
  owner: Owner | undefined
}

export class StreamLog {
  #fd: number | null = null
  #path: string | null = null
  #bytes = 0

  /** Where it is, relative to the workspace. Again with the same path it goes on. */
  open(path: string, { workspace, owner }: Place): { file: string } | { problem: string } {
    const inside = isAbsolute(path) ? relative(workspace, path) : path
    const names = inside.split('/').filter((name) => name !== '' && name !== '.')
    const folders = names.slice(0, -1)
    const file = names.join('/')
    if (this.#fd !== null && this.#path === file) return { file }
    this.close()
    try {
      if (names.includes('..')) throw new Error('it is not inside the workspace')
      this.#fd = openLog(workspace, folders, names.at(-1) ?? '', owner)
      this.#path = file
      return { file }
    } catch (error) {
      return { problem: `Cannot write the log "${path}": ${messageOf(error)}` }
    }
  }

  /** Passes every event on, and keeps it. */
  readonly tee =
    (emit: Emit): Emit =>
    (kind, data) => {
      this.#write(kind, data)
      emit(kind, data)
    }

  #write(kind: string, data: unknown): void {
    if (this.#fd === null || this.#bytes > maxBytes) return
    try {
      const line = `${JSON.stringify({ at: new Date().toISOString(), kind, data })}\n`
      this.#bytes += writeSync(this.#fd, line)
    } catch (error) {
      log('stream-log.failed', { reason: messageOf(error) })
      this.close()
    }
  }

  close(): void {
    if (this.#fd !== null) closeSync(this.#fd)
    this.#fd = null
    this.#path = null
  }
}

function openLog(
  workspace: string,
  folders: string[],
  name: string,
  owner: Owner | undefined,
): number {
  const top = Folder.open(workspace)
  try {
    const folder = top.descend(folders, { owner })
    if (!folder) throw new Error('something on the way is no folder')
    try {
      return folder.append(name, 0o644, owner)
    } finally {
      folder.close()
    }
  } finally {
    top.close()
  }
}
