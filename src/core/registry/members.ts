// Members of organisations. Their record is in libSQL. Keys name their member by its name (`owner`), which is taken once
// and never changes.

import { AppError } from '../../contract/error.ts'
import type { Member, MemberCreate } from '../../contract/member.ts'
import type { Crypto, Db, DbStatement } from '../ports.ts'
import { auditStatement, type Maker } from './audit.ts'

const columns = `id, organisation_id as organisationId, name, identity, created_by as createdBy,
  created_at as createdAt, disabled_at as disabledAt`

export const newMemberId = (crypto: Pick<Crypto, 'random'>): string => `mbr_${crypto.random(20)}`

interface NewMember extends MemberCreate {
  id: string
  organisationId: string
  maker: Maker
}

/** With its entry in the audit. Nothing is made if the name is taken; `unless` is SQL that forbids it as well. */
export function memberStatements(
  crypto: Pick<Crypto, 'random'>,
  now: number,
  { id, organisationId, name, identity, maker }: NewMember,
  unless: { sql: string; values: DbStatement['values'] } = { sql: 'select 1 where 0', values: [] },
): DbStatement[] {
  return [
    {
      sql: `insert into members (id, organisation_id, name, identity, created_by, created_at)
            select ?, ?, ?, ?, ?, ?
            where not exists (select 1 from members where organisation_id = ? and name = ?)
              and not exists (${unless.sql})
            on conflict do nothing`,
      values: [
        ...[id, organisationId, name, identity, maker?.keyId ?? null, now],
        ...[organisationId, name, ...unless.values],
      ],
    },
    auditStatement(
      crypto,
      now,
      { organisationId, action: 'member.created', subject: id, maker, detail: { name, identity } },
      { sql: 'select 1 from members where id = ?', values: [id] },
    ),
  ]
}

/** The same id again gives the same member. */
export async function insertMember(
  db: Db,
  crypto: Pick<Crypto, 'random'>,
  now: number,
  member: NewMember,
): Promise<Member> {
  await db.batch(memberStatements(crypto, now, member))
  const made = await findMember(db, member.organisationId, member.id)
  if (made) return made
  throw new AppError('wrong_state', `There is a member "${member.name}" already`, [
    { path: 'name', message: 'Taken' },
  ])
}

async function findMember(db: Db, organisationId: string, id: string): Promise<Member | null> {
  const [row] = await db.all<Member>(
    `select ${columns} from members where organisation_id = ? and id = ?`,
    organisationId,
    id,
  )
  return row ?? null
}

export async function loadMember(db: Db, organisationId: string, id: string): Promise<Member> {
  const found = await findMember(db, organisationId, id)
  if (!found) throw new AppError('not_found', 'There is no such member')
  return found
}

export async function listMembers(
  db: Db,
  organisationId: string,
  page: { limit: number; after: { createdAt: number; id: string } | null },
): Promise<Member[]> {
  return await db.all<Member>(
    `select ${columns} from members
     where organisation_id = ? and (created_at, id) > (?, ?) order by created_at, id limit ?`,
    organisationId,
    page.after?.createdAt ?? -1,
    page.after?.id ?? '',
    page.limit,
  )
}

export async function isMemberDisabled(
  db: Db,
  organisationId: string,
  name: string,
): Promise<boolean> {
  const rows = await db.all(
    'select 1 from members where organisation_id = ? and name = ? and disabled_at is not null',
    organisationId,
    name,
  )
  return rows.length > 0
}

/** For good: its keys are revoked in the same step, and no new one is made for it. Repeatable: the first time stays. */
export async function disableMember(
  db: Db,
  crypto: Pick<Crypto, 'random'>,
  now: number,
  { organisationId, memberId, maker }: { organisationId: string; memberId: string; maker: Maker },
): Promise<Member> {
  const { name } = await loadMember(db, organisationId, memberId)
  if (maker?.memberId === memberId)
    throw new AppError('wrong_state', `Cannot disable "${name}": it is you. Ask another admin`)
  const one = [organisationId, memberId]
  await db.batch([
    {
      sql: `update members set disabled_at = coalesce(disabled_at, ?) where organisation_id = ? and id = ?`,
      values: [now, ...one],
    },
    {
      sql: `update api_keys set revoked_at = coalesce(revoked_at, ?)
            where organisation_id = ? and owner = ?`,
      values: [now, organisationId, name],
    },
    auditStatement(
      crypto,
      now,
      { organisationId, action: 'member.disabled', subject: memberId, maker, detail: { name } },
      { sql: 'select 1 from members where organisation_id = ? and id = ?', values: one },
    ),
  ])
  return await loadMember(db, organisationId, memberId)
}
