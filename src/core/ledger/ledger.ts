import type { CrashPoint } from '../actor/crash-points.ts'
import { outboxIdentity } from '../actor/outbox.ts'
import type {
  Clock,
  Db,
  DbStatement,
  Ledger,
  LedgerAnswer,
  LedgerAppend,
  LedgerStatus,
  Log,
  OutboxRow,
  Sql,
} from '../ports.ts'
import { DeadLetters } from './dead-letters.ts'
import {
  eraseLedgerSession,
  type RowOwner,
  eraseLedgerUploads,
  type UploadSweep,
} from './erasing.ts'
import {
  isLibsqlAway,
  notYetError,
  libsqlReason,
  isRowError,
  UnknownKind,
} from './libsql-errors.ts'
import { type Kind, type Table, tables } from './tables.ts'

const maxBatchRows = 1000
/** One request that takes too long would fail all of its sessions, again and again. */
const maxBatchBytes = 8 * 1024 * 1024
/** From one batch to the next. Each costs two requests, and nobody waits for rows to be in libSQL. */
const paceMs = 100

interface Waiting {
  input: LedgerAppend
  resolve: (answer: LedgerAnswer) => void
  reject: (error: unknown) => void
}

/** What is to be written of one request, and how far libSQL has its owner afterwards. */
interface Plan extends Waiting {
  rows: OutboxRow[]
  stored: number
}

interface Behind {
  organisationId: string
  oldestAt: number
  reason: string | null
}

/** Why the rows of some owners cannot be written yet. */
type Failures = Map<string, unknown>

interface LedgerPorts {
  sql: Sql
  db(): Db
  now: Clock
  log: Log
  /** Undefined: batches follow each other as they come. */
  sleep?: (ms: number) => Promise<void>
  crash?: CrashPoint | undefined
}

/**
 * One ledger shard: writes the outboxes of many sessions and organisations to libSQL. One batch is on its way at a time,
 * and what arrives meanwhile joins the next one. It promises that the rows of one owner are written in order, that a row
 * which libSQL refuses holds up no other, and that nobody is answered before the rows are in libSQL. Its queue is memory
 * only, which is enough: each owner keeps its rows until their watermark has come back, and sends them again.
 * Sessions and organisations call `append`, the status route calls `status`.
 */
export class LedgerActor implements Ledger {
  readonly #ports: LedgerPorts
  readonly #letters: DeadLetters
  #queue: Waiting[] = []
  #writing = false
  #begunAt = 0
  /** The oldest unsent row of each session whose rows did not get through, and why. */
  readonly #behind = new Map<string, Behind>()

  constructor(ports: LedgerPorts) {
    this.#ports = ports
    this.#letters = new DeadLetters(ports.sql)
  }

  append(input: LedgerAppend): Promise<LedgerAnswer> {
    const answer = new Promise<LedgerAnswer>((resolve, reject) =>
      this.#queue.push({ input, resolve, reject }),
    )
    const { sessionId, organisationId } = input
    const oldestAt = input.rows[0]?.createdAt
    if (oldestAt !== undefined && !this.#behind.has(sessionId))
      this.#behind.set(sessionId, { organisationId, oldestAt, reason: null })
    if (!this.#writing) void this.#writeAll()
    return answer
  }

  /** Of one organisation; null: of all, for the operator. */
  async status(organisationId: string | null): Promise<LedgerStatus> {
    const behind = [...this.#behind.values()]
      .filter((each) => organisationId === null || each.organisationId === organisationId)
      .toSorted((a, b) => a.oldestAt - b.oldestAt)
    return {
      pendingSessions: behind.length,
      oldestAt: behind[0]?.oldestAt ?? null,
      reason: behind.find(({ reason }) => reason !== null)?.reason ?? null,
      ...this.#letters.list(organisationId),
    }
  }

  async #writeAll(): Promise<void> {
    this.#writing = true
    while (this.#queue.length > 0) {
      const pause = this.#pause()
      if (pause) await pause
      this.#begunAt = this.#ports.now()
      await this.#writeBatch(this.#takeBatch())
    }
    this.#writing = false
  }

  /** A lone request does not wait; of many, those that come soon after a batch travel together in the next one. */
  #pause(): Promise<void> | undefined {
    const { sleep, now } = this.#ports
    const waitMs = this.#begunAt + paceMs - now()
    const isSoon = waitMs > 0 && waitMs <= paceMs
    // A pause that fails is over.
    return isSoon ? sleep?.(waitMs).catch(() => undefined) : undefined
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

  /** Nobody is answered before everything is written: a second request for the same rows counts on the first. */
  async #writeBatch(batch: Waiting[]): Promise<void> {
    try {
      const db = this.#ports.db()
      const stored = await loadWatermarks(
        db,
        batch.map(({ input }) => input.sessionId),
      )
      const plans = batch.map((item) => planFor(item, stored))
      await this.#ports.crash?.('ledger.before-write')
      const failures = await this.#write(db, plans)
      await this.#ports.crash?.('ledger.after-write')
      for (const plan of plans) this.#answer(plan, failures.get(plan.input.sessionId))
    } catch (error) {
      for (const item of batch) this.#fail(item, error)
    }
  }

  async #write(db: Db, plans: Plan[]): Promise<Failures> {
    const writing = plans.filter(({ rows }) => rows.length > 0)
    const failures: Failures = new Map()
    if (writing.length === 0) return failures
    try {
      await db.batch(batchStatements(writing))
      for (const { input, rows } of writing) this.#letters.settle(input.sessionId, rows)
    } catch (error) {
      if (isLibsqlAway(error)) throw error
      // One bad row fails its neighbours: now each owner stands alone.
      for (const plan of writing) await this.#writeAlone(db, plan, failures)
    }
    return failures
  }

  /** Rows of one owner stay in order: behind one that waits, all wait. */
  async #writeAlone(db: Db, plan: Plan, failures: Failures): Promise<void> {
    if (failures.has(plan.input.sessionId)) return
    try {
      await db.batch(planStatements(plan))
      this.#letters.settle(plan.input.sessionId, plan.rows)
    } catch (error) {
      if (isLibsqlAway(error)) throw error
      for (const row of plan.rows) {
        const failure = await this.#writeRow(db, plan.input, row)
        if (failure !== null) return void failures.set(plan.input.sessionId, failure)
      }
    }
  }

  /** Null: it is written, or buried. */
  async #writeRow(db: Db, input: LedgerAppend, row: OutboxRow): Promise<unknown> {
    const mark = ledgerWatermark(input.sessionId, row.seq)
    try {
      await db.batch([...ledgerStatements(input, [row]), mark])
      this.#letters.settle(input.sessionId, [row])
    } catch (error) {
      if (isLibsqlAway(error)) throw error
      if (!isRowError(error)) return notYetError(row, error)
      this.#bury(input, row, error)
      await db.batch([mark])
    }
    return null
  }

  #answer(plan: Plan, failure: unknown): void {
    if (failure !== undefined) return this.#fail(plan, failure)
    const { input, stored, resolve } = plan
    const last = input.rows.at(-1)?.seq ?? input.after
    if (stored >= last) this.#behind.delete(input.sessionId)
    resolve({ stored, refused: this.#letters.of(input.sessionId) })
  }

  #fail({ input, reject }: Waiting, error: unknown): void {
    const behind = this.#behind.get(input.sessionId)
    if (behind) behind.reason = libsqlReason(error)
    reject(error)
  }

  #bury(input: LedgerAppend, row: OutboxRow, error: unknown): void {
    const message = libsqlReason(error)
    this.#ports.log('error', 'libSQL refused a row', {
      sessionId: input.sessionId,
      organisationId: input.organisationId,
      seq: row.seq,
      kind: row.kind,
      error: message,
    })
    this.#letters.add(input, row, message, this.#ports.now())
  }
}

/** A session that knows more than libSQL first sends again what libSQL has lost; what libSQL has is not written again. */
function planFor(item: Waiting, stored: Map<string, number>): Plan {
  const { sessionId, after, rows } = item.input
  const known = stored.get(sessionId) ?? 0
  const last = rows.at(-1)?.seq ?? after
  if (known < after || known >= last) return { ...item, rows: [], stored: Math.min(known, last) }
  stored.set(sessionId, last)
  return { ...item, rows: rows.filter((row) => row.seq > known), stored: last }
}

const planStatements = ({ input, rows, stored }: Plan): DbStatement[] => [
  ...ledgerStatements(input, rows),
  ledgerWatermark(input.sessionId, stored),
]

/** As all plans one after the other. Calls of many owners are one statement, and so are all watermarks. */
function batchStatements(plans: readonly Plan[]): DbStatement[] {
  const ofCalls = plans.filter(hasOnlyCalls)
  const others = plans.filter((plan) => !hasOnlyCalls(plan))
  const owned = ofCalls.flatMap(({ input, rows }) => rows.map((row) => ({ who: input, row })))
  return [
    ...(owned.length > 0 ? [upsert('call', owned)] : []),
    ...others.flatMap(({ input, rows }) => ledgerStatements(input, rows)),
    ledgerWatermarks(plans),
  ]
}

const hasOnlyCalls = ({ rows }: Plan): boolean => rows.every(({ kind }) => kind === 'call')

async function loadWatermarks(db: Db, sessionIds: string[]): Promise<Map<string, number>> {
  const places = sessionIds.map(() => '?').join(', ')
  const rows = await db.all<{ session_id: string; seq: number }>(
    `select session_id, seq from outbox_watermarks where session_id in (${places})`,
    ...sessionIds,
  )
  return new Map(rows.map((row) => [row.session_id, row.seq]))
}

export function ledgerWatermark(sessionId: string, seq: number): DbStatement {
  return {
    sql: `insert into outbox_watermarks (session_id, seq) values (?, ?)
      on conflict (session_id) do update set seq = max(seq, excluded.seq)`,
    values: [sessionId, seq],
  }
}

function ledgerWatermarks(plans: readonly Plan[]): DbStatement {
  const marks = plans.map(({ input, stored }) => [input.sessionId, stored])
  return {
    sql: `insert into outbox_watermarks (session_id, seq)
      select value ->> '$[0]', value ->> '$[1]' from json_each(?) where true
      on conflict (session_id) do update set seq = max(seq, excluded.seq)`,
    values: [JSON.stringify(marks)],
  }
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
    reason: shards.find(({ reason }) => reason !== null)?.reason ?? null,
    deadLetters: shards.flatMap(({ deadLetters }) => deadLetters),
    unowned: shards.flatMap(({ unowned }) => unowned),
    deadLetterCount: shards.reduce((sum, { deadLetterCount }) => sum + deadLetterCount, 0),
  }
}

/**
 * How rows of one session's outbox change libSQL. Every statement may be repeated; an older row never undoes a newer
 * one, nor a session what is another's (callers choose the ids of runs, so two may say the same), nor what is erased. Rows of one kind that
 * follow each other are one statement with one JSON text, put together from their payloads as they are: libSQL takes it
 * apart, which costs the Worker nothing.
 */
export function ledgerStatements(who: RowOwner, rows: readonly OutboxRow[]): DbStatement[] {
  const statements: DbStatement[] = []
  for (let from = 0; from < rows.length;) {
    const sent = rows[from]?.kind as string
    let to = from + 1
    while (rows[to]?.kind === sent) to += 1
    const run = rows.slice(from, to).map((row) => ({ ...row, ...outboxIdentity(row) }))
    const kind = run[0]?.kind as string
    if (kind === 'session.erased') statements.push(...eraseLedgerSession(who, lastTime(run)))
    else if (kind === 'uploads.swept') statements.push(...run.flatMap((row) => sweep(who, row)))
    else if (kind === 'snapshot.deleted') statements.push(deleteSnapshots(who, run))
    else if (Object.hasOwn(tables, kind))
      statements.push(
        upsert(
          kind as Kind,
          run.map((row) => ({ who, row })),
        ),
      )
    else if (kind !== 'dead-letter.closed') throw new UnknownKind(kind)
    from = to
  }
  return statements
}

const lastTime = (rows: readonly OutboxRow[]): number => rows.at(-1)?.createdAt ?? 0

const sweep = (who: RowOwner, { payload }: OutboxRow): DbStatement[] =>
  eraseLedgerUploads(who, JSON.parse(payload) as UploadSweep)

const upserts = new Map<Kind, string>()

function upsert(kind: Kind, owned: readonly { who: RowOwner; row: OutboxRow }[]): DbStatement {
  const sql = upserts.get(kind) ?? upsertSql(tables[kind])
  upserts.set(kind, sql)
  const rows = owned.map(({ who, row }) => {
    const owner = JSON.stringify([who.sessionId, who.organisationId]).slice(1, -1)
    return `[${row.seq},${row.payload},${owner}]`
  })
  return { sql, values: [`[${rows.join(',')}]`] }
}

/** A row is its number, its payload, its session and its organisation. */
const owner = `value ->> '$[2]'`

function upsertSql({ name, key, session, payload, fixed }: Table): string {
  const sources: Record<string, string> = {
    [session]: owner,
    organisation_id: `value ->> '$[3]'`,
    outbox_seq: `value ->> '$[0]'`,
    ...fixed,
  }
  for (const [column, field] of Object.entries(payload)) {
    sources[column] = `value ->> '$[1].${field}'`
  }
  const columns = Object.keys(sources)
  const updates = columns
    .filter((column) => !key.includes(column))
    .map((column) => `${column} = excluded.${column}`)
  return `insert into ${name} (${columns.join(', ')})
    select ${Object.values(sources).join(', ')} from json_each(?)
    where not exists (select 1 from outbox_watermarks where session_id = ${owner} and erased_at is not null)
    on conflict (${key.join(', ')}) do update set ${updates.join(', ')}
    where excluded.${session} = ${name}.${session} and excluded.outbox_seq >= ${name}.outbox_seq`
}

/** What the session has deleted at its provider cannot be started from any more. */
function deleteSnapshots({ sessionId, organisationId }: RowOwner, rows: OutboxRow[]): DbStatement {
  const payloads = `[${rows.map(({ payload }) => payload).join(',')}]`
  return {
    sql: `delete from snapshots where organisation_id = ? and session_id = ?
      and id in (select value ->> '$.id' from json_each(?))`,
    values: [organisationId, sessionId, payloads],
  }
}
