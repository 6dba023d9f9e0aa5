import { OfferedProvider, type Provider } from '../../contract/provider.ts'
import type { ProviderName } from '../../contract/sandbox.ts'
import type { Db } from '../ports.ts'
import { listCredentials } from '../registry/provider-credentials.ts'
import type { Providers } from '../registry/providers.ts'

export interface ListProvidersPorts {
  db(): Db
  providers: Pick<Providers, 'ofDeployment'>
  config: { defaultSandbox: ProviderName }
}

/** Every provider that Gantry knows, and whose credentials count for this organisation. */
export async function listProviders(
  ports: ListProvidersPorts,
  organisationId: string,
): Promise<Provider[]> {
  const own = await listCredentials(ports.db(), organisationId)
  return OfferedProvider.options.map((name) => {
    const row = own.find(({ provider }) => provider === name)
    const unless = ports.providers.ofDeployment.includes(name) ? 'deployment' : null
    return {
      name,
      source: row ? 'organisation' : unless,
      isDefault: ports.config.defaultSandbox === name,
      updatedAt: row?.updatedAt ?? null,
      updatedBy: row?.updatedBy ?? null,
    }
  })
}
