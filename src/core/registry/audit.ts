import type { AuditAction, AuditEntry } from '../../contract/audit.ts'
import type { Crypto, Db, DbStatement } from '../ports.ts'

/** Who does something to members, keys or settings. Null: the operator, by `npm run admin` or `npm start`. */
export type Maker = {
  keyId: string
  memberId: string
  /** Whose its key still counts as. */
  countsAs?: { memberId: string } | null
} | null

interface Deed {
  organisationId: string
  action: AuditAction
  /** The id of what it was done to. */
  subject: string
  maker: Maker
  detail?: Record<string, unknown>
}

/**
 * One entry, in the batch of what it tells of and behind it: `done` is SQL that holds once the deed is done by this very
 * batch. Sending the batch again adds nothing.
 */
export function auditStatement(
  crypto: Pick<Crypto, 'random'>,
  now: number,
  deed: Deed,
  done: { sql: string; values: DbStatement['values'] },
): DbStatement {
  return {
    sql: `insert into audit (id, organisation_id, action, subject, actor, detail, created_at)
          select ?, ?, ?, ?, ?, ?, ? where exists (${done.sql})
            and not exists (select 1 from audit where organisation_id = ? and subject = ? and action = ?)`,
    values: [
      ...auditValues(crypto, now, deed),
      ...done.values,
      ...[deed.organisationId, deed.subject, deed.action],
    ],
  }
}

/** Of the columns id, organisation_id, action, subject, actor, detail, created_at. */
export const auditValues = (
  crypto: Pick<Crypto, 'random'>,
  now: number,
  { organisationId, action, subject, maker, detail = {} }: Deed,
): DbStatement['values'] => [
  `aud_${crypto.random(20)}`,
  ...[organisationId, action, subject, maker?.keyId ?? 'operator', JSON.stringify(detail), now],
]

/** Newest first. */
export async function listAudit(
  db: Db,
  organisationId: string,
  page: { limit: number; before: { createdAt: number; id: string } | null },
): Promise<AuditEntry[]> {
  const rows = await db.all<Omit<AuditEntry, 'detail'> & { detail: string }>(
    `select id, action, subject, actor, detail, created_at as createdAt from audit
     where organisation_id = ? and (created_at, id) < (?, ?)
     order by created_at desc, id desc limit ?`,
    organisationId,
    page.before?.createdAt ?? Number.MAX_SAFE_INTEGER,
    page.before?.id ?? '',
    page.limit,
  )
  return rows.map((row) => ({ ...row, detail: JSON.parse(row.detail) as AuditEntry['detail'] }))
}
