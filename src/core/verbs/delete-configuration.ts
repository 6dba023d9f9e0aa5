import type { OrganisationApi } from '../organisation/organisation.ts'
import type { Db } from '../ports.ts'
import {
  type ConfigurationKey,
  removeConfiguration,
} from '../registry/configurations/configurations.ts'

interface DeleteConfigurationPorts {
  db(): Db
  organisation(id: string): Pick<OrganisationApi, 'pools'>
}

/** With its secrets; the sessions of its warm pool end. */
export async function deleteConfiguration(
  ports: DeleteConfigurationPorts,
  key: ConfigurationKey,
): Promise<void> {
  await removeConfiguration(ports.db(), key)
  await ports.organisation(key.organisationId).pools.watch(key.configurationId)
}
