import type { ResealResult } from '../../contract/secret.ts'
import type { Crypto, Db, DbStatement } from '../ports.ts'

/** Every column of libSQL that holds a sealed text. */
const sealedColumns = [
  { table: 'secrets', column: 'sealed' },
  { table: 'configurations', column: 'repository_token' },
  { table: 'webhooks', column: 'sealed_secret' },
  { table: 'provider_credentials', column: 'sealed' },
] as const
type SealedColumn = (typeof sealedColumns)[number]

interface Row {
  place: number
  sealed: string
}
const pageSize = 20

/**
 * Puts everything of the organisation under the first key. Repeatable. Sessions keep what they took at their creation as
 * it was sealed then, so an older key can be dropped only after the last session made under it is deleted.
 */
export async function resealSecrets(
  db: Db,
  crypto: Crypto,
  organisationId: string,
): Promise<ResealResult> {
  const total: ResealResult = { resealed: 0, current: 0, unreadable: 0 }
  for (const where of sealedColumns) {
    let rows: Row[]
    let after = -1
    do {
      rows = await loadPage(db, where, organisationId, after)
      await resealPage(db, crypto, where, rows, total)
      after = rows.at(-1)?.place ?? after
    } while (rows.length === pageSize)
  }
  return total
}

function loadPage(
  db: Db,
  { table, column }: SealedColumn,
  organisationId: string,
  after: number,
): Promise<Row[]> {
  return db.all<Row>(
    `select rowid as place, ${column} as sealed from ${table}
     where organisation_id = ? and rowid > ? and ${column} is not null order by rowid limit ?`,
    organisationId,
    after,
    pageSize,
  )
}

async function resealPage(
  db: Db,
  crypto: Crypto,
  where: SealedColumn,
  rows: Row[],
  total: ResealResult,
): Promise<void> {
  const updates: DbStatement[] = []
  for (const row of rows) {
    if (crypto.isCurrent(row.sealed)) {
      total.current += 1
      continue
    }
    const value = await crypto.unseal(row.sealed).catch(() => null)
    if (value === null) total.unreadable += 1
    else updates.push(replaceSeal(where, row, await crypto.seal(value)))
  }
  await db.batch(updates)
  total.resealed += updates.length
}

/** Only over the text that was read: a value set meanwhile is newer. */
const replaceSeal = ({ table, column }: SealedColumn, row: Row, sealed: string): DbStatement => ({
  sql: `update ${table} set ${column} = ? where rowid = ? and ${column} = ?`,
  values: [sealed, row.place, row.sealed],
})
