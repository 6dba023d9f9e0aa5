import type { DbStatement } from '../ports.ts'
import { otherTables, type Table, tables } from './tables.ts'

/**
 * What libSQL does when a session is erased, and when uploads that nobody has named are swept. Both follow from the list
 * of tables: a table that says that its rows go with their session needs nothing here. ledger.ts calls these for the
 * rows `session.erased` and `uploads.swept` of an outbox.
 */

export interface RowOwner {
  sessionId: string
  organisationId: string
}

/** How long a mark keeps late rows and uploads of an erased session out: far longer than any request lives. */
const keepMarkMs = 24 * 60 * 60_000

const namesOf = (what: 'claim' | 'content'): string[] =>
  Object.entries(otherTables)
    .filter(([, rows]) => rows === what)
    .map(([name]) => name)

/** Tables whose rows name content by its hash. */
const namers = Object.values<Table>(tables)
  .filter(({ payload }) => 'sha256' in payload)
  .map(({ name }) => name)

/** Content stays while a row of one of these holds it. */
const holders = [...namesOf('claim'), ...namers]

/** In one transaction: the content that nobody else holds, then every row. `at` is when it was erased. */
export function eraseLedgerSession(who: RowOwner, at: number): DbStatement[] {
  const values = [who.organisationId, who.sessionId]
  const own = 'where organisation_id = ?1 and session_id = ?2'
  const held = holders.map((holder) => `select sha256 from ${holder} ${own}`).join('\n    union ')
  return [
    ...dropContent(held, values),
    ...namesOf('claim').map((claims) => ({ sql: `delete from ${claims} ${own}`, values })),
    ...Object.values(tables).flatMap((table) => deleteRows(table, values)),
    {
      sql: `insert into outbox_watermarks (session_id, seq, erased_at) values (?, 0, ?)
        on conflict (session_id) do update set erased_at = excluded.erased_at`,
      values: [who.sessionId, at],
    },
    {
      sql: 'delete from outbox_watermarks where erased_at < ?',
      values: [at - keepMarkMs],
    },
  ]
}

/** The organisation's books stay. */
function deleteRows(table: Table, values: string[]): DbStatement[] {
  if (table.stays !== undefined) return []
  const keep = table.keep === undefined ? '' : ` and not (${table.keep})`
  return [
    {
      sql: `delete from ${table.name} where organisation_id = ?1 and ${table.session} = ?2${keep}`,
      values,
    },
  ]
}

/** Content among `names` that no other session's claim or artifact holds. */
function dropContent(names: string, values: (string | number)[]): DbStatement[] {
  const unheld = holders.map(
    (holder) => `not exists (select 1 from ${holder} other where other.organisation_id = ?1
      and other.sha256 = content.sha256 and other.session_id <> ?2)`,
  )
  return namesOf('content').map((name) => ({
    sql: `delete from ${name} as content where organisation_id = ?1 and sha256 in (${names}) and ${unheld.join(' and ')}`,
    values,
  }))
}

export interface UploadSweep {
  /** Claims from before this time. */
  before: number
  /** What the session names though libSQL does not know it yet. */
  keep: string[]
}

/**
 * Uploads of a session that nothing has named for long. Its artifacts and texts of changes are all in libSQL by now:
 * their rows travel in order, before this one.
 */
export function eraseLedgerUploads(who: RowOwner, { before, keep }: UploadSweep): DbStatement[] {
  const values = [who.organisationId, who.sessionId, before, JSON.stringify(keep)]
  const named = namers.map(
    (namer) =>
      `and sha256 not in (select sha256 from ${namer} where organisation_id = ?1 and session_id = ?2)`,
  )
  const unnamed = `organisation_id = ?1 and session_id = ?2 and claimed_at < ?3 ${named.join(' ')}
    and sha256 not in (select value from json_each(?4))`
  const swept = `select sha256 from blob_claims where ${unnamed}`
  return [
    ...dropContent(swept, values),
    { sql: `delete from blob_claims where ${unnamed}`, values },
  ]
}
