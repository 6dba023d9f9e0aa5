import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { Journal } from './journal.ts'

/** What must outlive the agent's process. */
export interface Remembered {
  opencodeSessionId: string | null
  /** A turn that was sent to OpenCode and whose end was not told yet. */
  turn: { turnId: string; messageIds: string[]; startedAt: number } | null
  /** OpenCode died in a turn: the next prompt says so. */
  announceLoss: boolean
  /** Workspace files that Gantry wrote because the repository had none. */
  copies: string[]
  baseTree: string | null
}

const nothing: Remembered = {
  opencodeSessionId: null,
  turn: null,
  announceLoss: false,
  copies: [],
  baseTree: null,
}

export class Memory {
  readonly #path: string
  #value: Remembered

  constructor(path: string) {
    this.#path = path
    this.#value = { ...nothing, ...readJson(path) }
  }

  get value(): Readonly<Remembered> {
    return this.#value
  }

  save(change: Partial<Remembered>): void {
    this.#value = { ...this.#value, ...change }
    writeFileSync(`${this.#path}.new`, JSON.stringify(this.#value), { mode: 0o600 })
    renameSync(`${this.#path}.new`, this.#path)
  }

  /** Unless the next turn has begun. */
  forget(turnId: string): void {
    if (this.#value.turn?.turnId === turnId) this.save({ turn: null })
  }
}

function readJson(path: string): Partial<Remembered> {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as Partial<Remembered>
  } catch {
    return {}
  }
}

export interface Result {
  ok: boolean
  data?: Record<string, unknown>
  error?: string
}
type ResultLine = { id: string; result: Result } | { id: string; acked: true }

/** Results by command id: sent again until acknowledged; the ids are kept for good, so nothing is carried out twice. */
export class Results {
  readonly #journal: Journal<ResultLine>
  readonly #open = new Map<string, Result>()
  readonly #acked = new Set<string>()

  constructor(path: string) {
    const { journal, lines } = Journal.open<ResultLine>(path)
    this.#journal = journal
    for (const line of lines) this.#apply(line)
    if (lines.length > 0) this.#journal.replace(this.#lines())
  }

  isDone(id: string): boolean {
    return this.#open.has(id) || this.#acked.has(id)
  }

  add(id: string, result: Result): void {
    this.#write({ id, result })
  }

  ack(id: string): void {
    if (this.#open.has(id)) this.#write({ id, acked: true })
  }

  get(id: string): Result | undefined {
    return this.#open.get(id)
  }

  unacknowledged(): [string, Result][] {
    return [...this.#open]
  }

  close(): void {
    this.#journal.close()
  }

  #write(line: ResultLine): void {
    this.#journal.append(line)
    this.#apply(line)
  }

  #apply(line: ResultLine): void {
    if ('result' in line) {
      this.#open.set(line.id, line.result)
    } else {
      this.#open.delete(line.id)
      this.#acked.add(line.id)
    }
  }

  #lines(): ResultLine[] {
    return [
      ...[...this.#acked].map((id) => ({ id, acked: true as const })),
      ...[...this.#open].map(([id, result]) => ({ id, result })),
    ]
  }
}
