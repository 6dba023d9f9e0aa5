// The agent's own record of attempts. One file says that an attempt was begun, a second how it ended. The first is on
// the disk before anything happens, so an attempt without the second was cut off, and nobody can say how far it came.
// More files remember a merge and a discard. Only the executor uses it.

import {
  closeSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import type { DiscardReport, ExecutionReport, MergeReport } from '../../src/contract/operation.ts'

/** How an attempt ended, and the commit that its branch stood at: what is merged later is what was reported now. */
export interface Ended {
  report: ExecutionReport
  commit: string | null
}

export type Known =
  | { state: 'begun'; digest: string }
  | ({ state: 'ended'; digest: string } & Ended)

export class Attempts {
  readonly #folder: string

  constructor(folder: string) {
    this.#folder = folder
    mkdirSync(folder, { recursive: true, mode: 0o700 })
  }

  /** undefined: it is new, and from now on begun. */
  begin(attemptId: string, digest: string): Known | undefined {
    let fd: number
    try {
      fd = openSync(this.#path(attemptId, 'begun'), 'wx', 0o600)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EEXIST') return this.known(attemptId)
      throw error
    }
    writeFileSync(fd, JSON.stringify({ digest }))
    fsyncSync(fd)
    closeSync(fd)
    this.#syncFolder()
    return undefined
  }

  end(attemptId: string, ended: Ended): void {
    this.#write(attemptId, 'ended', ended)
  }

  known(attemptId: string): Known | undefined {
    const begun = this.#read(attemptId, 'begun')
    if (begun === undefined) return undefined
    // Cut off while this very file was written: then nothing else was done either, but nobody can prove it.
    const digest = begun?.digest ?? ''
    const ended = this.#read(attemptId, 'ended')
    return ended ? { state: 'ended', digest, ...ended } : { state: 'begun', digest }
  }

  merged(attemptId: string): MergeReport | undefined {
    return this.#read(attemptId, 'merged') ?? undefined
  }

  rememberMerge(attemptId: string, merge: MergeReport): void {
    this.#write(attemptId, 'merged', merge)
  }

  discarded(attemptId: string): DiscardReport | undefined {
    return this.#read(attemptId, 'discarded') ?? undefined
  }

  rememberDiscard(attemptId: string, discard: DiscardReport): void {
    this.#write(attemptId, 'discarded', discard)
  }

  /** undefined: there is none. null: it cannot be read. */
  #read<K extends FileKind>(attemptId: string, kind: K): Files[K] | null | undefined {
    let text: string
    try {
      text = readFileSync(this.#path(attemptId, kind), 'utf8')
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
      throw error
    }
    try {
      return JSON.parse(text) as Files[K]
    } catch {
      return null
    }
  }

  #write<K extends FileKind>(attemptId: string, kind: K, value: Files[K]): void {
    const path = this.#path(attemptId, kind)
    const fd = openSync(`${path}.new`, 'w', 0o600)
    writeFileSync(fd, JSON.stringify(value))
    fsyncSync(fd)
    closeSync(fd)
    renameSync(`${path}.new`, path)
    this.#syncFolder()
  }

  // A new name is safe only once its folder is.
  #syncFolder(): void {
    const fd = openSync(this.#folder, 'r')
    fsyncSync(fd)
    closeSync(fd)
  }

  #path(attemptId: string, kind: FileKind): string {
    return join(this.#folder, `${attemptId}.${kind}`)
  }
}

interface Files {
  begun: { digest: string }
  ended: Ended
  merged: MergeReport
  discarded: DiscardReport
}
type FileKind = keyof Files
