// What must outlive the agent's process: `Memory` (OpenCode's session, the turn under way, the files that Gantry wrote)
// and `Results` (which commands were carried out, and their results), so that no command is carried out twice. If the
// disk is full, both go on in memory and write later. The agent opens them; turns, the supervisor, commands and the
// uplink use them.

import { type Disk, nodeDisk, writeToDisk } from './disk.ts'
import { Journal } from './journal.ts'
import { log, messageOf } from '../log.ts'

interface Remembered {
  opencodeSessionId: string | null
  /** A turn that was sent to OpenCode and whose end was not told yet. */
  turn: { turnId: string; messageIds: string[]; startedAt: number } | null
  /** What the next prompt says first: OpenCode is another one, and why. */
  loss: string | null
  /** Workspace files that Gantry wrote because the repository had none. */
  copies: string[]
  baseTree: string | null
  /** What was checked out where the base was read. */
  baseCommit: string | null
}

const nothing: Remembered = {
  opencodeSessionId: null,
  turn: null,
  loss: null,
  copies: [],
  baseTree: null,
  baseCommit: null,
}

/** What an agent that starts again must know of the one before, in one small file. */
export class Memory {
  readonly #disk: Disk
  readonly #path: string
  #value: Remembered

  constructor(path: string, disk: Disk = nodeDisk) {
    this.#disk = disk
    this.#path = path
    this.#value = { ...nothing, ...readJson(disk, path) }
  }

  get value(): Readonly<Remembered> {
    return this.#value
  }

  /** On a full disk it is remembered as long as this process lives: a turn must not fail for it. */
  save(change: Partial<Remembered>): void {
    this.#value = { ...this.#value, ...change }
    try {
      this.#write(`${this.#path}.new`)
      this.#disk.rename(`${this.#path}.new`, this.#path)
    } catch (error) {
      log('memory.not-written', { reason: messageOf(error) })
    }
  }

  #write(path: string): void {
    const file = this.#disk.openNew(path)
    try {
      writeToDisk(this.#disk, file, Buffer.from(JSON.stringify(this.#value)))
    } finally {
      this.#disk.close(file)
    }
  }

  /** Unless the next turn has begun. */
  forget(turnId: string): void {
    if (this.#value.turn?.turnId === turnId) this.save({ turn: null })
  }
}

/** Nothing, if there is no file or it is not whole. */
function readJson(disk: Disk, path: string): Partial<Remembered> {
  const file = disk.openToAppend(path)
  try {
    return JSON.parse(disk.read(file).toString('utf8')) as Partial<Remembered>
  } catch {
    return {}
  } finally {
    disk.close(file)
  }
}

export interface Result {
  ok: boolean
  data?: Record<string, unknown>
  error?: string
}
type ResultLine = { id: string; result: Result } | { id: string; acked: true }

/** Results by command id. A result is sent again until it is acknowledged; the ids are kept for good. */
export class Results {
  readonly #journal: Journal<ResultLine>
  readonly #open = new Map<string, Result>()
  readonly #acked = new Set<string>()
  #isBehind = false

  constructor(path: string, disk: Disk = nodeDisk) {
    const { journal, lines } = Journal.open<ResultLine>(path, disk)
    this.#journal = journal
    for (const line of lines) this.#apply(line)
    if (lines.length > 0) this.#attempt(() => this.#journal.replace(this.#lines()))
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
    this.#apply(line)
    this.#attempt(() =>
      this.#isBehind ? this.#journal.replace(this.#lines()) : this.#journal.append(line),
    )
  }

  #attempt(write: () => void): void {
    try {
      write()
      this.#isBehind = false
    } catch (error) {
      this.#isBehind = true
      log('results.not-written', { reason: messageOf(error) })
    }
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
