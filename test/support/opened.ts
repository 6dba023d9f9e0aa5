import type { ConfigurationKey } from '../../src/core/registry/configurations/configurations.ts'
import { loadSealedConfigurationToken } from '../../src/core/registry/configurations/configurations.ts'
import { loadSealedSecrets } from '../../src/core/registry/configurations/secrets.ts'
import type { Crypto, Db } from '../../src/core/ports.ts'

/** What a session would know, in clear. */
export async function openedSecrets(
  db: Db,
  crypto: Crypto,
  organisationId: string,
  configurationId: string | null,
): Promise<{ name: string; value: string }[]> {
  const secrets = await loadSealedSecrets(db, organisationId, configurationId)
  return await Promise.all(
    secrets.map(async ({ name, sealed }) => ({ name, value: await crypto.unseal(sealed) })),
  )
}

export async function openedToken(
  db: Db,
  crypto: Crypto,
  key: ConfigurationKey,
): Promise<string | null> {
  const sealed = await loadSealedConfigurationToken(db, key)
  return sealed === null ? null : await crypto.unseal(sealed)
}
