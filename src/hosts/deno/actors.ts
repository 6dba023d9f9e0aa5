// Actors inside this process: at most one live instance per id, each over its own SQLite file. An actor stays open
// while work holds it, and is closed when it was idle for a minute or when too many are open. What it has committed is
// on the disk. sessions.ts keeps sessions, organisations and ledgers in one of these each.

import { join } from 'node:path'
import { SqlFile } from './node-sqlite.ts'

/** Keeps an actor in memory until the work is done. */
export type Hold = <T>(work: Promise<T>) => Promise<T>

interface ActorKind<A> {
  folder: string
  create(id: string, sql: SqlFile, hold: Hold): A
  /** It was asked for and could not be made. */
  onUnopened?(id: string, error: unknown): void
  /** Before it changes or makes its file. */
  onFirstWrite?(id: string): void
  /** Its file is still open. */
  onClose?(id: string, sql: SqlFile): void
}

export interface ActorLimits {
  /** Without use for so long, an actor is closed. */
  idleMs: number
  /** Beyond so many the least recently used idle ones are closed at once. */
  maxOpen: number
}
export const actorLimits: ActorLimits = { idleMs: 60_000, maxOpen: 1000 }

interface Entry<A> {
  actor: A
  sql: SqlFile
  busy: number
  usedAt: number
}

export class Actors<A extends object> {
  readonly #kind: ActorKind<A>
  readonly #limits: ActorLimits
  /** The least recently used first. */
  readonly #entries = new Map<string, Entry<A>>()
  readonly #sweeper: ReturnType<typeof setInterval>
  #closed = false

  constructor(kind: ActorKind<A>, limits: ActorLimits = actorLimits) {
    this.#kind = kind
    this.#limits = limits
    this.#sweeper = setInterval(() => this.#sweep(), limits.idleMs / 2)
  }

  async use<T>(id: string, work: (actor: A) => T | Promise<T>): Promise<T> {
    const entry = this.#load(id)
    return await hold(entry, async () => await work(entry.actor))
  }

  openCount(): number {
    return this.#entries.size
  }

  /** Also those that are busy: what they have committed is kept, and they can commit no more. */
  close(): void {
    this.#closed = true
    clearInterval(this.#sweeper)
    for (const [id, entry] of this.#entries) this.#end(id, entry)
  }

  #load(id: string): Entry<A> {
    const entry = this.#entries.get(id) ?? this.#open(id)
    entry.usedAt = Date.now()
    this.#entries.delete(id)
    this.#entries.set(id, entry)
    return entry
  }

  #open(id: string): Entry<A> {
    if (this.#closed) throw new Error(`Cannot open "${id}": the process is stopping`)
    // Ids are checked before they come here; the path of a file must not depend on that.
    if (!/^[a-z0-9_-]{1,100}$/.test(id)) throw new Error(`Cannot open "${id}": not an id`)
    this.#makeRoom()
    const sql = new SqlFile(join(this.#kind.folder, `${id}.sqlite`), () =>
      this.#kind.onFirstWrite?.(id),
    )
    const entry = { sql, busy: 0, usedAt: 0 } as Entry<A>
    try {
      entry.actor = this.#kind.create(id, sql, (work) => hold(entry, () => work))
    } catch (error) {
      sql.close()
      this.#kind.onUnopened?.(id, error)
      throw error
    }
    return entry
  }

  #makeRoom(): void {
    for (const [id, entry] of this.#entries) {
      if (this.#entries.size < this.#limits.maxOpen) return
      if (entry.busy === 0) this.#end(id, entry)
    }
  }

  #sweep(): void {
    const before = Date.now() - this.#limits.idleMs
    for (const [id, entry] of this.#entries) {
      if (entry.busy === 0 && entry.usedAt <= before) this.#end(id, entry)
    }
  }

  #end(id: string, { sql }: Entry<A>): void {
    this.#entries.delete(id)
    try {
      this.#kind.onClose?.(id, sql)
    } finally {
      sql.close()
    }
  }
}

async function hold<T>(
  entry: { busy: number; usedAt: number },
  work: () => Promise<T>,
): Promise<T> {
  entry.busy += 1
  try {
    return await work()
  } finally {
    entry.busy -= 1
    entry.usedAt = Date.now()
  }
}
