import { createHash, randomBytes } from 'node:crypto'
import type { CommandResult } from '../src/contract/link.ts'
import type { Link } from './link.ts'

export type Collected = { ok: true; data: CommandResult<'collect'> } | { ok: false; error: string }

/**
 * Stands in for a sandbox, for cases of `verify`: answers each `collect` with a file that it has just made and uploaded, and
 * remembers which commands have come.
 */
export class Sandbox {
  readonly link: Link
  /** The ids of the commands that have come: one per run of `verify`. */
  readonly collects = new Set<string>()
  collect: () => Promise<Collected>
  #held: Promise<void> | null = null
  #began = Promise.withResolvers<void>()

  constructor(link: Link, upload: (bytes: Uint8Array) => Promise<void>) {
    this.link = link
    this.collect = async () => {
      const file = newFile()
      await upload(file.bytes)
      return { ok: true, data: { files: [file.named] } }
    }
    link.onCommand = ({ id, kind }) => {
      if (kind === 'collect') void this.#answer(id).catch(() => link.close())
    }
  }

  async #answer(id: string): Promise<void> {
    this.collects.add(id)
    this.#began.resolve()
    await this.#held
    this.link.send({ t: 'result', commandId: id, ...(await this.collect()) })
  }

  /** From now on answers are kept back, until the returned function is called. */
  hold(): () => void {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#held = promise
    return () => {
      this.#held = null
      resolve()
    }
  }

  /** Until the first command has come. */
  async asked(): Promise<void> {
    await this.link.next('command')
    await this.#began.promise
  }
}

export function newFile() {
  const bytes = randomBytes(32)
  const sha256 = createHash('sha256').update(bytes).digest('hex')
  const contentType = 'application/octet-stream'
  return { bytes, named: { path: 'evidence.bin', size: bytes.length, sha256, contentType } }
}
