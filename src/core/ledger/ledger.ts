import { errorCodeOf } from '../../contract/error.ts'
import type { DeadLetter } from '../../contract/status.ts'
import { isMigrated, migrate } from '../migrate.ts'
import type { CrashPoint } from '../crash-points.ts'
import type {
  Clock,
  Db,
  DbStatement,
  Ledger,
  LedgerAppend,
  LedgerStatus,
  Log,
  OutboxRow,
  Sql,
} from '../ports.ts'
import { statementsFor, watermarkStatement } from './statements.ts'

const maxBatchRows = 1000
/** One request that takes too long would fail all of its sessions, again and again. */
const maxBatchBytes = 8 * 1024 * 1024
const maxDeadLetters = 100

const ladder = [
  [
    `create table dead_letters (
      session_id text not null,
      seq integer not null,
      kind text not null,
      error text not null,
      at integer not null,
      primary key (session_id, seq)
    )`,
  ],
]

interface Waiting {
  input: LedgerAppend
  resolve: (stored: number) => void
  reject: (error: unknown) => void
}

export interface LedgerPorts {
  sql: Sql
  db(): Db
  now: Clock
  log: Log
  crash?: CrashPoint | undefined
}

/**
 * A batching writer: one batch in flight, and what arrives meanwhile joins the next one. Its queue is memory only, which
 * is enough: each session keeps its rows until their watermark has come back.
 */
export class LedgerActor implements Ledger {
  readonly #ports: LedgerPorts
  #queue: Waiting[] = []
  #writing = false
  /** The oldest unsent row of each session whose rows did not get through. */
  readonly #behind = new Map<string, number>()

  constructor(ports: LedgerPorts) {
    this.#ports = ports
  }

  append(input: LedgerAppend): Promise<number> {
    const stored = new Promise<number>((resolve, reject) =>
      this.#queue.push({ input, resolve, reject }),
    )
    const oldest = input.rows[0]?.createdAt
    if (oldest !== undefined && !this.#behind.has(input.sessionId))
      this.#behind.set(input.sessionId, oldest)
    if (!this.#writing) void this.#writeAll()
    return stored
  }

  async status(): Promise<LedgerStatus> {
    return {
      pendingSessions: this.#behind.size,
      oldestAt: this.#behind.size > 0 ? Math.min(...this.#behind.values()) : null,
      deadLetters: this.#deadLetters(),
    }
  }

  async #writeAll(): Promise<void> {
    this.#writing = true
    while (this.#queue.length > 0) await this.#writeBatch(this.#takeBatch())
    this.#writing = false
  }

  #takeBatch(): Waiting[] {
    const batch: Waiting[] = []
    let rows = 0
    let bytes = 0
    while (this.#queue.length > 0) {
      const next = this.#queue[0] as Waiting
      rows += next.input.rows.length
      for (const row of next.input.rows) bytes += row.payload.length
      if (batch.length > 0 && (rows > maxBatchRows || bytes > maxBatchBytes)) break
      batch.push(next)
      this.#queue.shift()
    }
    return batch
  }

  async #writeBatch(batch: Waiting[]): Promise<void> {
    try {
      const db = this.#ports.db()
      const stored = await loadWatermarks(
        db,
        batch.map(({ input }) => input.sessionId),
      )
      const current = batch.filter((item) => this.#isCurrent(item, stored))
      await this.#ports.crash?.('ledger.before-write')
      await this.#write(db, current)
      await this.#ports.crash?.('ledger.after-write')
    } catch (error) {
      for (const { reject } of batch) reject(error)
    }
  }

  /** A session that knows more than libSQL first sends again what libSQL has lost; what libSQL has is not written again. */
  #isCurrent({ input, resolve }: Waiting, stored: Map<string, number>): boolean {
    const known = stored.get(input.sessionId) ?? 0
    const last = input.rows.at(-1)?.seq ?? input.after
    if (known < input.after || known >= last) {
      resolve(Math.min(known, last))
      if (known >= last) this.#behind.delete(input.sessionId)
      return false
    }
    input.rows = input.rows.filter((row) => row.seq > known)
    stored.set(input.sessionId, last)
    return true
  }

  async #write(db: Db, batch: Waiting[]): Promise<void> {
    if (batch.length === 0) return
    try {
      await db.batch(batch.flatMap(({ input }) => [...rowStatements(input), watermark(input)]))
    } catch (error) {
      if (errorCodeOf(error) === 'storage_unavailable') throw error
      // One bad row fails its neighbours: now each row stands alone.
      for (const item of batch) await this.#writeSingly(db, item)
    }
    for (const item of batch) this.#done(item)
  }

  async #writeSingly(db: Db, { input }: Waiting): Promise<void> {
    for (const row of input.rows) {
      const mark = watermarkStatement(input.sessionId, row.seq)
      try {
        await db.batch([...statementsFor(input, [row]), mark])
      } catch (error) {
        if (errorCodeOf(error) === 'storage_unavailable') throw error
        this.#bury(input, row, error)
        await db.batch([mark])
      }
    }
  }

  #done({ input, resolve }: Waiting): void {
    this.#behind.delete(input.sessionId)
    resolve(input.rows.at(-1)?.seq ?? input.after)
  }

  #bury(input: LedgerAppend, row: OutboxRow, error: unknown): void {
    const message = error instanceof Error ? error.message : String(error)
    this.#ports.log('error', 'libSQL refused a row', {
      sessionId: input.sessionId,
      seq: row.seq,
      kind: row.kind,
      error: message,
    })
    migrate(this.#ports.sql, ladder)
    this.#ports.sql.run(
      'insert or replace into dead_letters (session_id, seq, kind, error, at) values (?, ?, ?, ?, ?)',
      input.sessionId,
      row.seq,
      row.kind,
      message.slice(0, 500),
      this.#ports.now(),
    )
  }

  #deadLetters(): DeadLetter[] {
    if (!isMigrated(this.#ports.sql)) return []
    return this.#ports.sql.all<DeadLetter>(
      'select session_id as sessionId, seq, kind, error, at from dead_letters order by at desc limit ?',
      maxDeadLetters,
    )
  }
}

function rowStatements(input: LedgerAppend): DbStatement[] {
  return statementsFor(input, input.rows)
}

function watermark(input: LedgerAppend): DbStatement {
  return watermarkStatement(input.sessionId, input.rows.at(-1)?.seq ?? input.after)
}

async function loadWatermarks(db: Db, sessionIds: string[]): Promise<Map<string, number>> {
  const places = sessionIds.map(() => '?').join(', ')
  const rows = await db.all<{ session_id: string; seq: number }>(
    `select session_id, seq from outbox_watermarks where session_id in (${places})`,
    ...sessionIds,
  )
  return new Map(rows.map((row) => [row.session_id, row.seq]))
}

/** A session always uses the same writer. */
export function ledgerShard(sessionId: string, shards: number): number {
  let hash = 0
  for (const character of sessionId)
    hash = (Math.imul(hash, 31) + (character.codePointAt(0) ?? 0)) >>> 0
  return hash % shards
}
export const ledgerShards = 4

export function sumLedgerStatus(shards: readonly LedgerStatus[]): LedgerStatus {
  const oldest = shards.flatMap(({ oldestAt }) => oldestAt ?? [])
  return {
    pendingSessions: shards.reduce((sum, { pendingSessions }) => sum + pendingSessions, 0),
    oldestAt: oldest.length > 0 ? Math.min(...oldest) : null,
    deadLetters: shards.flatMap(({ deadLetters }) => deadLetters),
  }
}
