// Tells the session which abilities lie in the workspace, when that has changed, and sends the folder of one that the
// session asks for. What cannot be told now is told before the next turn; no turn waits for it. The agent calls it.

import { createHash } from 'node:crypto'
import { log, messageOf } from '../log.ts'
import { uploadText, type UploadOptions } from '../link/upload.ts'
import { findWorkspaceAbilities, readWorkspaceAbility } from './workspace-abilities.ts'

interface AbilityTellerOptions {
  workspace: () => string
  /** Where the list goes, and where a folder of this hash does. */
  to: (hash: string | null) => UploadOptions
}

const nothing = JSON.stringify({ found: [], problems: [] })
const digestOf = (text: string) => createHash('sha256').update(text).digest('hex')

export class AbilityTeller {
  readonly #options: AbilityTellerOptions
  /** Of what the session knows. Where there is nothing it needs to be told nothing. */
  #told = digestOf(nothing)
  #telling: Promise<void> = Promise.resolve()

  constructor(options: AbilityTellerOptions) {
    this.#options = options
  }

  /** One after the other: an older list must not arrive last. */
  tell(): Promise<void> {
    this.#telling = this.#telling
      .then(() => this.#tell())
      .catch((error: unknown) => log('abilities not told', { reason: messageOf(error) }))
    return this.#telling
  }

  async #tell(): Promise<void> {
    const text = JSON.stringify(findWorkspaceAbilities(this.#options.workspace()))
    const digest = digestOf(text)
    if (digest === this.#told) return
    await uploadText(this.#options.to(null), text)
    this.#told = digest
  }

  /** Refuses if it is another one by now: what was looked at is what is sent. */
  async send(path: string, hash: string): Promise<void> {
    const read = readWorkspaceAbility(this.#options.workspace(), path)
    if (read?.hash !== hash) {
      void this.tell()
      throw new Error(`Cannot send the ability at "${path}": it has changed or is gone`)
    }
    await uploadText(this.#options.to(hash), JSON.stringify({ files: read.files }))
  }
}
