import { AppError } from '../../contract/error.ts'
import type { CredentialsOf, RemoteProvider } from '../../contract/provider.ts'
import type { Crypto, Db } from '../ports.ts'

export interface CredentialsKey {
  organisationId: string
  provider: RemoteProvider
}

/** What may be known of them. */
interface CredentialsRow {
  provider: RemoteProvider
  updatedAt: number
  updatedBy: string
}

/** Repeatable: those before are gone. */
export async function saveCredentials<P extends RemoteProvider>(
  db: Db,
  crypto: Pick<Crypto, 'seal'>,
  now: number,
  key: CredentialsKey & { provider: P },
  { fields, keyId }: { fields: CredentialsOf[P]; keyId: string },
): Promise<void> {
  const values = [
    key.organisationId,
    key.provider,
    await crypto.seal(JSON.stringify(fields)),
    keyId,
    now,
  ]
  await db.batch([
    {
      sql: `insert into provider_credentials (organisation_id, provider, sealed, updated_by, updated_at)
            values (?, ?, ?, ?, ?)
            on conflict (organisation_id, provider) do update set sealed = excluded.sealed,
              updated_by = excluded.updated_by, updated_at = excluded.updated_at`,
      values,
    },
  ])
}

export async function deleteCredentials(db: Db, key: CredentialsKey): Promise<void> {
  if ((await loadCredentials(db, key)) === null)
    throw new AppError('not_found', `The organisation has no credentials for "${key.provider}"`)
  const values = [key.organisationId, key.provider]
  await db.batch([
    {
      sql: 'delete from provider_credentials where organisation_id = ? and provider = ?',
      values,
    },
  ])
}

/** Sealed. Null: it has none of its own. */
export async function loadCredentials(db: Db, key: CredentialsKey): Promise<string | null> {
  const [row] = await db.all<{ sealed: string }>(
    'select sealed from provider_credentials where organisation_id = ? and provider = ?',
    key.organisationId,
    key.provider,
  )
  return row?.sealed ?? null
}

export async function listCredentials(db: Db, organisationId: string): Promise<CredentialsRow[]> {
  return await db.all<CredentialsRow>(
    `select provider, updated_at as updatedAt, updated_by as updatedBy from provider_credentials
     where organisation_id = ? order by provider`,
    organisationId,
  )
}

/** From libSQL, so it may be a moment old. */
export async function countCredentialSandboxes(db: Db, key: CredentialsKey): Promise<number> {
  const [row] = await db.all<{ live: number }>(
    `select count(*) as live from sandbox_reservations
     where organisation_id = ? and provider = ? and ended_at is null`,
    key.organisationId,
    key.provider,
  )
  return row?.live ?? 0
}
