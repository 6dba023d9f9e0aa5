import type { ToolCallInput } from './answers.ts'

interface Kept {
  sent: string
  body: string
}

/** Of all sessions of this process together, so that many sessions cost no more than few. The oldest go first. */
const kept = new Map<string, Kept>()
const maxKept = 2000
let instances = 0
/** Characters of arguments and answer. */
const maxLength = 2000

/**
 * The last answers, for whoever asks again: most do so soon, because an answer was lost. An answer never changes once it
 * is stored, and it is known here only to the instance that has stored or read it; what is not here is in the record.
 */
export class KeptAnswers {
  /** No two are alike, whatever an instance's own id is made of. */
  readonly #instance = (instances += 1)
  #forgotten = false

  /** For exactly these arguments. */
  find(call: ToolCallInput, sent: string): string | undefined {
    const found = kept.get(this.#keyOf(call))
    return found?.sent === sent ? found.body : undefined
  }

  keep(call: ToolCallInput, sent: string, body: string): void {
    if (this.#forgotten || sent.length + body.length > maxLength) return
    kept.set(this.#keyOf(call), { sent, body })
    if (kept.size > maxKept) for (const oldest of kept.keys()) return void kept.delete(oldest)
  }

  /** The session is erased: nothing of it is known here any more, nor will be. */
  forget(): void {
    this.#forgotten = true
    for (const key of kept.keys()) if (key.startsWith(`${this.#instance}\n`)) kept.delete(key)
  }

  #keyOf({ tool, toolCallId }: ToolCallInput): string {
    return `${this.#instance}\n${tool}\n${toolCallId}`
  }
}
