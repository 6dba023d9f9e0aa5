import type { DeadLetterView } from '../../contract/status.ts'
import { addToOutbox, isName, kindAgain } from './outbox.ts'
import type { LedgerAnswer, RefusedRow, Sql } from '../ports.ts'

// Rows of an outbox that libSQL has refused: kept until they are sent again, however long that takes.

/** At once: each is a row of the outbox again. */
const maxResent = 500

interface Letter extends RefusedRow {
  payload: string | null
}

/**
 * Inside the transaction that moves the watermark, and before it moves: afterwards the rows may be pruned. The ledger
 * tells of a refusal until the row has got through, so most of them are known, or on their way again.
 */
export function keepDeadLetters(sql: Sql, { stored, refused }: LedgerAnswer): void {
  for (const { seq, kind, error, at } of refused) {
    if (isOnItsWay(sql, stored, seq, kind)) continue
    sql.run(
      `insert into dead_letters (seq, kind, error, at, payload) values (?1, ?2, ?3, ?4,
         (select payload from outbox where (seq = ?1 and kind = ?2) or kind = ?5 order by seq desc limit 1))
       on conflict (seq) do update set error = excluded.error, at = excluded.at`,
      seq,
      kind,
      error,
      at,
      kindAgain(kind, seq),
    )
  }
}

function isOnItsWay(sql: Sql, stored: number, seq: number, kind: string): boolean {
  const rows = sql.all(
    `select 1 from outbox where seq > ? and (kind = ? or (kind = 'dead-letter.closed' and payload = ?)) limit 1`,
    stored,
    kindAgain(kind, seq),
    JSON.stringify({ seq }),
  )
  return rows.length > 0
}

export function countDeadLetters(sql: Sql): number {
  return sql.all<{ n: number }>('select count(*) as n from dead_letters')[0]?.n ?? 0
}

/** Oldest first. `canBeTold` says which kinds can be told anew without their row. */
export function listDeadLetters(
  sql: Sql,
  page: { limit: number; after: number | null },
  canBeTold: (kind: string) => boolean,
): { items: DeadLetterView[]; next: number | null } {
  const rows = sql.all<Letter>(
    'select seq, kind, error, at, payload is null as payload from dead_letters where seq > ? order by seq limit ?',
    page.after ?? 0,
    page.limit + 1,
  )
  const items = rows.slice(0, page.limit).map(({ seq, kind, error, at, payload }) => ({
    ...{ seq, kind, reason: error, at },
    canResend: Number(payload) === 0 || canBeTold(kind),
  }))
  return { items, next: rows.length > page.limit ? (items.at(-1)?.seq ?? null) : null }
}

/**
 * Inside a commit. A row travels again under its first number, so it undoes nothing that came after it. What is only
 * named, or was not kept, is told as it is now: `tellAnew` does that for all rows of a kind, false if it cannot.
 */
export function resendDeadLetters(
  sql: Sql,
  now: number,
  seqs: readonly number[] | null,
  tellAnew: (kind: string) => boolean,
): number {
  const letters = seqs === null ? firstLetters(sql) : lettersOf(sql, seqs)
  const told = new Map<string, boolean>()
  const isTold = (kind: string) => {
    if (!told.has(kind)) told.set(kind, tellAnew(kind))
    return told.get(kind) === true
  }
  const sent = letters.filter((letter) => resend(sql, now, letter, isTold))
  for (const { seq } of sent) sql.run('delete from dead_letters where seq = ?', seq)
  return sent.length
}

function resend(
  sql: Sql,
  now: number,
  { seq, kind, payload }: Letter,
  isTold: (kind: string) => boolean,
): boolean {
  if (payload !== null && !isName({ payload })) {
    addRow(sql, now, kindAgain(kind, seq), payload)
    return true
  }
  if (payload !== null) addRow(sql, now, kind, payload)
  else if (!isTold(kind)) return false
  addToOutbox(sql, now, 'dead-letter.closed', { seq })
  return true
}

function addRow(sql: Sql, now: number, kind: string, payload: string): void {
  sql.run('insert into outbox (kind, payload, created_at) values (?, ?, ?)', kind, payload, now)
}

const columns = 'seq, kind, error, at, payload'

const firstLetters = (sql: Sql): Letter[] =>
  sql.all<Letter>(`select ${columns} from dead_letters order by seq limit ?`, maxResent)

/** Those that are not in the list any more have been sent: asking again is harmless. */
const lettersOf = (sql: Sql, seqs: readonly number[]): Letter[] =>
  sql.all<Letter>(
    `select ${columns} from dead_letters where seq in (select value from json_each(?)) order by seq`,
    JSON.stringify(seqs),
  )
