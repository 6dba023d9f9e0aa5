import type { Db } from '../ports.ts'
import { type CredentialsKey, deleteCredentials } from '../registry/provider-credentials.ts'
import type { Providers } from '../registry/providers.ts'
import { mustBeUnusedCredentials } from './set-provider-credentials.ts'

interface DeleteCredentialsPorts {
  db(): Db
  providers: Pick<Providers, 'forget'>
}

/** From then on the deployment's own count. */
export async function deleteProviderCredentials(
  ports: DeleteCredentialsPorts,
  { organisationId, provider }: CredentialsKey,
  whileLive: boolean,
): Promise<void> {
  if (!whileLive) await mustBeUnusedCredentials(ports.db(), { organisationId, provider })
  await deleteCredentials(ports.db(), { organisationId, provider })
  ports.providers.forget(provider, organisationId)
}
