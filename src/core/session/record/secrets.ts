import type { Injection } from '../../../contract/secret.ts'
import { createRedactor, type KnownSecret, type Redactor } from '../../redaction/redaction.ts'
import type { Crypto, Sql } from '../../ports.ts'

export interface SealedValue {
  key: string
  sealed: string
  kind: 'secret' | 'env'
  /** It is added to requests to these hosts, and the sandbox never has it. */
  inject?: Injection | null
}

export function saveEnvSecrets(sql: Sql, now: number, values: readonly SealedValue[]): void {
  for (const { key, sealed, kind, inject } of values) {
    // What never enters the sandbox does not begin to with another value.
    sql.run(
      `insert into env_values (key, sealed, kind, updated_at, inject) values (?, ?, ?, ?, ?)
       on conflict (key) do update set sealed = excluded.sealed, updated_at = excluded.updated_at,
         kind = case when inject is null then excluded.kind else kind end`,
      key,
      sealed,
      kind,
      now,
      inject ? JSON.stringify(inject) : null,
    )
  }
}

/** Keys that exist stay as they are; those that were new are returned. */
export function addEnvSecrets(
  sql: Sql,
  now: number,
  values: readonly SealedValue[],
): SealedValue[] {
  return values.filter(
    ({ key, sealed, kind }) =>
      sql.all(
        `insert into env_values (key, sealed, kind, updated_at) values (?, ?, ?, ?)
         on conflict (key) do nothing returning key`,
        key,
        sealed,
        kind,
        now,
      ).length > 0,
  )
}

export const envKeys = (sql: Sql): string[] =>
  sql.all<{ key: string }>('select key from env_values order by key').map(({ key }) => key)

export function sealedSecrets(sql: Sql): SealedValue[] {
  const rows = sql.all<Omit<SealedValue, 'inject'> & { inject: string | null }>(
    'select key, sealed, kind, inject from env_values order by key',
  )
  return rows.map(({ inject, ...row }) => ({
    ...row,
    inject: inject === null ? null : (JSON.parse(inject) as Injection),
  }))
}

export interface OpenValue {
  key: string
  value: string
  kind: 'secret' | 'env'
  inject: Injection | null
}

export const openValues = (sql: Sql, crypto: Crypto): Promise<OpenValue[]> =>
  openSecrets(sealedSecrets(sql), crypto)

export function openSecrets(values: readonly SealedValue[], crypto: Crypto): Promise<OpenValue[]> {
  return Promise.all(
    values.map(async ({ key, sealed, kind, inject = null }) => ({
      key,
      kind,
      inject,
      value: await crypto.unseal(sealed),
    })),
  )
}

/** What must never be stored in clear: the session's secrets and the credential of its repository. */
export function knownSecrets(
  values: readonly OpenValue[],
  repositoryToken: string | null,
): KnownSecret[] {
  const secrets = values
    .filter(({ kind }) => kind === 'secret')
    .map(({ key, value }) => ({ name: key, value }))
  return repositoryToken === null
    ? secrets
    : [...secrets, { name: 'repository', value: repositoryToken }]
}

export function secretRedactor(secrets: readonly KnownSecret[]): Redactor | null {
  return secrets.length === 0 ? null : createRedactor(secrets)
}

/** Inputs of abilities that are not to be shown, as texts. */
export async function secretInputs(sql: Sql, crypto: Crypto): Promise<KnownSecret[]> {
  const rows = sql.all<{ name: string; sealed: string }>(
    'select name, sealed from execution_secrets group by sealed order by execution_id, name',
  )
  return Promise.all(
    rows.map(async ({ name, sealed }) => {
      return { name, value: secretAsText(JSON.parse(await crypto.unseal(sealed))) }
    }),
  )
}

/** As scripts have it. */
export const secretAsText = (value: unknown): string =>
  typeof value === 'string' ? value : JSON.stringify(value)
