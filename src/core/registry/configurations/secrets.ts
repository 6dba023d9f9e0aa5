import { AppError } from '../../../contract/error.ts'
import {
  injectable,
  type Injection,
  maxSealedBytes,
  maxSecrets,
  type Secret,
} from '../../../contract/secret.ts'
import { loadConfiguration } from './configurations.ts'
import type { Crypto, Db } from '../../ports.ts'
import type { KnownSecret } from '../../redaction/redaction.ts'

/** Whose secrets: one configuration's, or (null) the whole organisation's. */
export interface SecretOwner {
  organisationId: string
  configurationId: string | null
}

interface Row {
  configuration_id: string
  name: string
  inject: string | null
  created_at: number
  updated_at: number
}
const columns = 'configuration_id, name, inject, created_at, updated_at'

/** `inject` absent: as it was. */
type NewSecret = KnownSecret & { inject?: Injection | null | undefined }

/** False: there was one of this name, and it stays as it is. */
export async function addSecret(
  db: Db,
  crypto: Crypto,
  now: number,
  owner: SecretOwner,
  secret: KnownSecret,
): Promise<boolean> {
  if (await hasSecret(db, owner, secret.name)) return false
  return (await writeSecret(db, crypto, now, owner, secret, 'do nothing')) !== undefined
}

/** Repeatable. `existed`: another value was there, and is now gone. A mark stays with a new value unless it is changed. */
export async function setSecret(
  db: Db,
  crypto: Crypto,
  now: number,
  owner: SecretOwner,
  secret: NewSecret,
): Promise<{ secret: Secret; existed: boolean }> {
  const before = await findSecret(db, owner, secret.name)
  const existed = before !== undefined
  if (secret.inject === undefined && before?.inject && !injectable.test(secret.value))
    throw new AppError(
      'unprocessable',
      `Secret "${secret.name}" is injected into requests: its value must have at least 8 printable ASCII characters and nothing else`,
      [{ path: 'value', message: 'At least 8 printable ASCII characters' }],
    )
  const row = await writeSecret(db, crypto, now, owner, secret, replacing)
  if (!row) throw new Error('A secret that was written cannot be read back')
  return { secret: secretOf(row), existed }
}

const replacing = `do update set sealed = excluded.sealed, updated_at = excluded.updated_at,
  inject = case when ?9 then excluded.inject else inject end`

/** Undefined if another one stays. */
async function writeSecret(
  db: Db,
  crypto: Crypto,
  now: number,
  owner: SecretOwner,
  { name, value, inject }: NewSecret,
  onConflict: 'do nothing' | typeof replacing,
): Promise<Row | undefined> {
  const sealed = await crypto.seal(value)
  const others = `from secrets where organisation_id = ?1 and configuration_id = ?2 and name <> ?3`
  // Everything is checked in the statement that writes, so that nobody can come in between: a configuration that is
  // deleted meanwhile gets no secret, and no limit is exceeded.
  const [row] = await db.all<Row>(
    `insert into secrets (organisation_id, configuration_id, name, sealed, created_at, updated_at, inject)
     select ?1, ?2, ?3, ?4, ?5, ?5, ?8
     where ?9 is not null and (?2 = '' or exists (select 1 from configurations where organisation_id = ?1 and id = ?2))
       and (select count(*) ${others}) < ?6
       and (select coalesce(sum(length(sealed)), 0) ${others}) + length(?4) <= ?7
     on conflict (organisation_id, configuration_id, name) ${onConflict}
     returning ${columns}`,
    owner.organisationId,
    scopeOf(owner),
    name,
    sealed,
    now,
    maxSecrets,
    maxSealedBytes,
    inject ? JSON.stringify(inject) : null,
    inject === undefined ? 0 : 1,
  )
  if (row) return row
  await checkOwner(db, owner)
  if (onConflict === 'do nothing' && (await hasSecret(db, owner, name))) return undefined
  throw new AppError(
    'wrong_state',
    `Cannot store secret "${name}": there may be ${maxSecrets} of them here, with ${maxSealedBytes} bytes in all once sealed`,
  )
}

/** By name. Names and dates only. */
export async function listSecretNames(db: Db, owner: SecretOwner): Promise<Secret[]> {
  await checkOwner(db, owner)
  const rows = await db.all<Row>(
    `select ${columns} from secrets where organisation_id = ? and configuration_id = ? order by name`,
    owner.organisationId,
    scopeOf(owner),
  )
  return rows.map(secretOf)
}

export async function deleteSecret(db: Db, owner: SecretOwner, name: string): Promise<void> {
  if (!(await hasSecret(db, owner, name))) {
    throw new AppError('not_found', 'There is no such secret')
  }
  await db.batch([
    {
      sql: 'delete from secrets where organisation_id = ? and configuration_id = ? and name = ?',
      values: [owner.organisationId, scopeOf(owner), name],
    },
  ])
}

interface SealedSecret {
  name: string
  sealed: string
  inject: Injection | null
}

/** What a session may know, still sealed. A configuration's own value hides the organisation's of the same name. */
export async function loadSealedSecrets(
  db: Db,
  organisationId: string,
  configurationId: string | null,
): Promise<SealedSecret[]> {
  const rows = await db.all<{ name: string; sealed: string; inject: string | null }>(
    `select name, sealed, inject from secrets where organisation_id = ? and configuration_id in ('', ?)
     order by name, configuration_id`,
    organisationId,
    configurationId ?? '',
  )
  // '' sorts before every id, so the configuration's own comes last and stays.
  return [...new Map(rows.map((row) => [row.name, row])).values()].map(({ inject, ...secret }) => ({
    ...secret,
    inject: parseInjection(inject),
  }))
}

const hasSecret = async (...where: Parameters<typeof findSecret>): Promise<boolean> =>
  (await findSecret(...where)) !== undefined

async function findSecret(db: Db, owner: SecretOwner, name: string): Promise<Row | undefined> {
  const [found] = await db.all<Row>(
    `select ${columns} from secrets where organisation_id = ? and configuration_id = ? and name = ?`,
    owner.organisationId,
    scopeOf(owner),
    name,
  )
  return found
}

async function checkOwner(db: Db, { organisationId, configurationId }: SecretOwner): Promise<void> {
  if (configurationId !== null) await loadConfiguration(db, { organisationId, configurationId })
}

const parseInjection = (text: string | null): Injection | null =>
  text === null ? null : (JSON.parse(text) as Injection)

const scopeOf = ({ configurationId }: SecretOwner): string => configurationId ?? ''

function secretOf(row: Row): Secret {
  return {
    name: row.name,
    configurationId: (row.configuration_id || null) as Secret['configurationId'],
    inject: parseInjection(row.inject),
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  }
}
