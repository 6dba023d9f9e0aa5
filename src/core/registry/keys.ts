import type { ApiKey, KeyCreate, KeyCreated, KeyLimits, Scope } from '../../contract/key.ts'
import { AppError } from '../../contract/error.ts'
import type { Crypto, Db, DbStatement } from '../ports.ts'
import { auditStatement, type Maker } from './audit.ts'
import { isMemberDisabled, memberStatements, newMemberId } from './members.ts'

interface KeyRow {
  id: string
  organisation_id: string
  name: string
  member_id: string
  owner: string
  scopes: string
  /** A list in JSON; null: all. */
  projects: string | null
  own_sessions: number
  made_by: string | null
  made_by_name: string | null
  /** Of the organisation: whether it counts as its member's at once. */
  new_keys_count: number
  created_at: number
  expires_at: number | null
  revoked_at: number | null
  last_used_at: number | null
}
/** With its member, that has the owner's name. What a disabled member has opens nothing, whoever has made it since. */
const select = `select k.id, k.organisation_id, k.name, m.id as member_id, k.owner, k.scopes, k.projects, k.own_sessions,
    k.made_by, maker.name as made_by_name, o.new_keys_count, k.created_at, k.expires_at, coalesce(k.revoked_at, m.disabled_at) as revoked_at, k.last_used_at
  from api_keys k join members m on m.organisation_id = k.organisation_id and m.name = k.owner
    join organisations o on o.id = k.organisation_id left join members maker on maker.id = k.made_by`

const implied: Record<Scope, readonly Scope[]> = {
  read: ['read'],
  write: ['write', 'read'],
  approve: ['approve', 'read'],
  admin: ['admin', 'write', 'approve', 'read'],
}

export function keyAllowsScope(held: readonly Scope[], needed: Scope): boolean {
  return held.some((scope) => implied[scope].includes(needed))
}

type KeyState = 'active' | 'expired' | 'revoked'

export function decideKeyState(key: ApiKey, now: number): KeyState {
  if (key.revokedAt !== null) return 'revoked'
  return key.expiresAt !== null && key.expiresAt <= now ? 'expired' : 'active'
}

/** Its secret was in the first answer and is nowhere else. */
export function keyAlreadyMade(what: string, id: string): AppError {
  const advice = `delete it and make another with a new Idempotency-Key`
  return new AppError(
    'wrong_state',
    `This Idempotency-Key has made ${what} "${id}" already, and its secret is shown once: ${advice}`,
    [{ path: 'idempotency-key', message: `Made "${id}"` }],
  )
}

export interface KeyOrder extends Omit<KeyCreate, 'owner' | 'memberId'> {
  id: string
  organisationId: string
  /** The name of its member, that is made if there is none. */
  owner: string
  maker: Maker
  secret: string
  /** Only if the organisation has no other active key of this name. */
  oncePerName: boolean
}

export const newKeyId = (crypto: Crypto): string => `key_${crypto.random(20)}`
export const newKeySecret = (crypto: Crypto): string => `gk_${crypto.random(32)}`

/** The answer is the only place where the secret is ever readable. */
export async function insertKey(
  db: Db,
  crypto: Crypto,
  now: number,
  organisationId: string,
  input: Omit<KeyCreate, 'memberId'> & { owner: string },
  { id, maker }: { id: string; maker: Maker } = { id: newKeyId(crypto), maker: null },
): Promise<KeyCreated> {
  if (input.expiresAt !== undefined && input.expiresAt <= now) {
    throw new AppError('invalid_request', 'The key would already be expired', [
      { path: 'expiresAt', message: 'Must be in the future' },
    ])
  }
  if (input.limits && input.scopes.includes('admin')) {
    throw new AppError('invalid_request', 'A key with scope admin has no limits', [
      { path: 'limits', message: 'Leave it out, or leave out scope admin' },
    ])
  }
  const secret = newKeySecret(crypto)
  const order = { ...input, id, organisationId, maker, secret, oncePerName: false }
  const key = await storeKey(db, crypto, now, order)
  if (key) return { ...key, secret }
  if (await isMemberDisabled(db, organisationId, input.owner))
    throw new AppError('wrong_state', `Cannot make a key: member "${input.owner}" is disabled`)
  throw keyAlreadyMade('key', id)
}

const sameName = `organisation_id = ? and name = ? and revoked_at is null
  and (expires_at is null or expires_at > ?)`

/** Null: there is another one of this name or id, or its member is disabled. Sending the same secret again changes nothing. */
export async function storeKey(
  db: Db,
  crypto: Crypto,
  now: number,
  order: KeyOrder,
): Promise<ApiKey | null> {
  const secretHash = storedHash(await crypto.sha256(order.secret), order.limits)
  const { id, organisationId, name, owner, maker } = order
  const taken = order.oncePerName ? [organisationId, name, now] : null
  const unless = {
    sql: taken ? `select 1 from api_keys where ${sameName}` : 'select 1 where 0',
    values: taken ?? [],
  }
  const member = { id: newMemberId(crypto), organisationId, name: owner, identity: '', maker }
  await db.batch([
    ...memberStatements(crypto, now, member, unless),
    keyStatement(order, secretHash, now, unless),
    auditStatement(
      crypto,
      now,
      { organisationId, action: 'key.created', subject: id, maker, detail: told(order) },
      { sql: 'select 1 from api_keys where id = ? and secret_hash = ?', values: [id, secretHash] },
    ),
  ])
  return findStored(db, [secretHash])
}

/** Release 0.1.0 knows no limits. It does not find a hash that begins with a word, and so does not let the key in. */
const limitedHash = (secretHash: string): string => `limited:${secretHash}`
const storedHash = (secretHash: string, limits: KeyLimits | undefined): string =>
  limits ? limitedHash(secretHash) : secretHash

const told = ({ name, owner, scopes, limits }: KeyOrder) => ({
  ...{ name, owner, scopes },
  ...(limits && { limits }),
})

/** The whole row is fixed before it is sent, so sending it again changes nothing. */
function keyStatement(
  order: KeyOrder,
  secretHash: string,
  now: number,
  unless: DbStatement,
): DbStatement {
  const { id, organisationId, name, owner, limits, maker } = order
  const scopes = JSON.stringify([...new Set(order.scopes)])
  return {
    sql: `insert into api_keys (id, organisation_id, name, owner, scopes, secret_hash, created_at, expires_at,
            projects, own_sessions, made_by)
          select ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
            nullif(?, (select id from members where organisation_id = ? and name = ?))
          where not exists (${unless.sql}) and exists (
            select 1 from members where organisation_id = ? and name = ? and disabled_at is null)
          on conflict do nothing`,
    values: [
      ...[id, organisationId, name, owner, scopes, secretHash, now, order.expiresAt ?? null],
      ...[limits?.projects ? JSON.stringify(limits.projects) : null, limits?.ownSessions ? 1 : 0],
      ...[(maker?.countsAs ?? maker)?.memberId ?? null, organisationId, owner],
      ...[...unless.values, organisationId, owner],
    ],
  }
}

export async function isKeyNameTaken(
  db: Db,
  now: number,
  { organisationId, name }: Pick<KeyOrder, 'organisationId' | 'name'>,
): Promise<boolean> {
  const rows = await db.all(
    `select 1 from api_keys where ${sameName} limit 1`,
    organisationId,
    name,
    now,
  )
  return rows.length > 0
}

export async function listKeys(
  db: Db,
  organisationId: string,
  page: { limit: number; after: { createdAt: number; id: string } | null },
): Promise<ApiKey[]> {
  const rows = await db.all<KeyRow>(
    `${select}
     where k.organisation_id = ? and (k.created_at, k.id) > (?, ?) order by k.created_at, k.id limit ?`,
    organisationId,
    page.after?.createdAt ?? -1,
    page.after?.id ?? '',
    page.limit,
  )
  return rows.map(keyOf)
}

/** Repeatable: the first revocation's time stays. */
export async function revokeKey(
  db: Db,
  crypto: Crypto,
  now: number,
  { organisationId, keyId, maker }: { organisationId: string; keyId: string; maker: Maker },
): Promise<void> {
  const known = await db.all(
    'select 1 from api_keys where organisation_id = ? and id = ?',
    organisationId,
    keyId,
  )
  if (known.length === 0) throw new AppError('not_found', 'There is no such key')
  await db.batch([
    {
      sql: `update api_keys set revoked_at = coalesce(revoked_at, ?)
            where organisation_id = ? and id = ?`,
      values: [now, organisationId, keyId],
    },
    auditStatement(
      crypto,
      now,
      { organisationId, action: 'key.revoked', subject: keyId, maker },
      { sql: 'select 1', values: [] },
    ),
  ])
}

/** Revoked and expired keys too: see decideKeyState. */
export const findKey = (db: Db, secretHash: string): Promise<ApiKey | null> =>
  findStored(db, [secretHash, limitedHash(secretHash)])

async function findStored(db: Db, hashes: readonly string[]): Promise<ApiKey | null> {
  const marks = hashes.map(() => '?').join(', ')
  const [row] = await db.all<KeyRow>(`${select} where k.secret_hash in (${marks})`, ...hashes)
  return row ? keyOf(row) : null
}

export async function touchKey(db: Db, now: number, keyId: string): Promise<void> {
  await db.batch([
    {
      sql: 'update api_keys set last_used_at = max(coalesce(last_used_at, 0), ?) where id = ?',
      values: [now, keyId],
    },
  ])
}

function keyOf(row: KeyRow): ApiKey {
  return {
    id: row.id as ApiKey['id'],
    organisationId: row.organisation_id as ApiKey['organisationId'],
    name: row.name,
    memberId: row.member_id as ApiKey['memberId'],
    owner: row.owner,
    scopes: JSON.parse(row.scopes) as Scope[],
    limits: limitsOf(row),
    countsAs: countsAs(row),
    createdAt: row.created_at,
    expiresAt: row.expires_at,
    revokedAt: row.revoked_at,
    lastUsedAt: row.last_used_at,
  }
}

function limitsOf({ projects, own_sessions }: KeyRow): KeyLimits | null {
  if (projects === null && own_sessions === 0) return null
  return {
    ...(projects !== null && { projects: JSON.parse(projects) as string[] }),
    ...(own_sessions !== 0 && { ownSessions: true }),
  }
}

/** So long a key that one member has made for another counts as its maker's. */
export const newKeyMs = 86_400_000

function countsAs(row: KeyRow): ApiKey['countsAs'] {
  const { made_by, made_by_name: owner, created_at } = row
  if (made_by === null || owner === null || row.new_keys_count !== 0) return null
  return { memberId: made_by as ApiKey['memberId'], owner, until: created_at + newKeyMs }
}
