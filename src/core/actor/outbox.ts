import type { OutboxRow, Sql } from '../ports.ts'

/** The alarm is only the safety net: the shell flushes a few milliseconds after the commit. */
export const safetyNetMs = 5000

/** libSQL may lose its last writes with its machine: sent rows are kept this long to be sent again. */
const keepSentMs = 60 * 60_000
const maxBatchRows = 500
const maxBatchBytes = 768 * 1024
const describedAtOnce = 64

export function addToOutbox(sql: Sql, now: number, kind: string, payload: object): void {
  sql.run(
    'insert into outbox (kind, payload, created_at) values (?, ?, ?)',
    kind,
    JSON.stringify(payload),
    now,
  )
}

/** For what is kept anyway: the row says which it is, and what is sent is how it is by then. */
export function nameInOutbox(sql: Sql, now: number, kind: string, name: string): void {
  sql.run('insert into outbox (kind, payload, created_at) values (?, ?, ?)', kind, name, now)
}

export function outboxWatermark(sql: Sql): number {
  return sql.all<{ watermark: number }>('select watermark from outbox_mark')[0]?.watermark ?? 0
}

/** How far libSQL is, and which row is the newest. */
export function outboxReach(sql: Sql): { watermark: number; newest: number } {
  const [reach] = sql.all<{ watermark: number; newest: number | null }>(
    'select watermark, (select max(seq) from outbox) as newest from outbox_mark',
  )
  return { watermark: reach?.watermark ?? 0, newest: reach?.newest ?? 0 }
}

export function hasUnsentOutbox(sql: Sql): boolean {
  const found = sql.all(
    `select 1 from outbox where seq > (select watermark from outbox_mark) limit 1`,
  )
  return found.length > 0
}

/** What waits to be sent: nothing, rows of one kind only, or others among them. */
export function unsentOutboxKinds(sql: Sql, kind: string): 'none' | 'only' | 'others' {
  const [found] = sql.all<{ others: number | null }>(
    `select max(kind <> ?) as others from outbox where seq > (select watermark from outbox_mark)`,
    kind,
  )
  if (found?.others == null) return 'none'
  return found.others === 0 ? 'only' : 'others'
}

/** What others have is a JSON object. */
export const isName = ({ payload }: Pick<OutboxRow, 'payload'>): boolean => !payload.startsWith('{')

/** A row that is sent again after a refusal says which it was: with its first number it undoes nothing that is newer. */
export const kindAgain = (kind: string, seq: number): string => `${kind}@${seq}`

/** What a row is, and the number that it first had. */
export function outboxIdentity({ kind, seq }: Pick<OutboxRow, 'kind' | 'seq'>): {
  kind: string
  seq: number
} {
  const at = kind.lastIndexOf('@')
  return at < 0 ? { kind, seq } : { kind: kind.slice(0, at), seq: Number(kind.slice(at + 1)) }
}

/**
 * `describe` gives rows that only name something their payload. A few at a time: they may be large, and what does not
 * fit into this batch would be read in vain.
 */
export function unsentOutbox(
  sql: Sql,
  describe = (rows: OutboxRow[]): OutboxRow[] => rows,
): OutboxRow[] {
  const found = newestNames(
    sql.all<OutboxRow>(
      `select seq, kind, payload, created_at as createdAt from outbox
       where seq > (select watermark from outbox_mark) order by seq limit ?`,
      maxBatchRows,
    ),
  )
  const batch: OutboxRow[] = []
  let bytes = 0
  for (let from = 0; from < found.length; from += describedAtOnce) {
    for (const row of describe(found.slice(from, from + describedAtOnce))) {
      bytes += row.payload.length
      if (bytes > maxBatchBytes && batch.length > 0) return batch
      batch.push(row)
    }
  }
  return batch
}

/** What is named several times is sent once, at the last of its places. */
function newestNames(rows: OutboxRow[]): OutboxRow[] {
  const newest = new Map(rows.filter(isName).map((row) => [nameOf(row), row.seq]))
  return rows.filter((row) => !isName(row) || newest.get(nameOf(row)) === row.seq)
}

const nameOf = ({ kind, payload }: OutboxRow) => `${kind} ${payload}`

/** What the newest row is about, sent or not. */
export function lastOutboxKind(sql: Sql): string | null {
  return (
    sql.all<{ kind: string }>('select kind from outbox order by seq desc limit 1')[0]?.kind ?? null
  )
}

export function outboxLag(sql: Sql, now: number): { pending: number; lagMs: number } {
  const row = sql.all<{ pending: number; oldest: number | null }>(
    `select count(*) as pending, min(created_at) as oldest from outbox
     where seq > (select watermark from outbox_mark)`,
  )[0]
  return { pending: row?.pending ?? 0, lagMs: row?.oldest ? Math.max(0, now - row.oldest) : 0 }
}

/**
 * libSQL has stored all up to there, as it answered to whoever sent what follows `after`. Less than that means that it has
 * lost rows: they count as unsent again. Nothing else moves the mark back: a mere question may be answered after rows that
 * were sent meanwhile. Returns the mark.
 */
export function setOutboxWatermark(
  sql: Sql,
  now: number,
  stored: number,
  after = Infinity,
): number {
  const [set] = sql.all<{ watermark: number; oldest: number | null }>(
    `update outbox_mark set watermark = ${stored < after ? '?' : 'max(watermark, ?)'}
     returning watermark, (select created_at from outbox order by seq limit 1) as oldest`,
    stored,
  )
  const { watermark, oldest } = set ?? { watermark: 0, oldest: null }
  if (oldest !== null && oldest < now - keepSentMs) prune(sql, now - keepSentMs, watermark)
  return watermark
}

/** The row at the watermark stays, so that numbers never start again; a bounded slice at a time. */
function prune(sql: Sql, before: number, watermark: number): void {
  sql.run(
    `delete from outbox where seq in (select seq from outbox order by seq limit 1000)
     and seq < ? and created_at < ?`,
    watermark,
    before,
  )
}

export function nextOutboxVerification(now: number): number {
  return now + keepSentMs
}
