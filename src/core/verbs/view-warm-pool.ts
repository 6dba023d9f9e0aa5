import type { WarmPoolView } from '../../contract/warm-pool.ts'
import type { OrganisationApi } from '../organisation/organisation.ts'
import type { Db } from '../ports.ts'
import {
  type ConfigurationKey,
  loadConfiguration,
} from '../registry/configurations/configurations.ts'

interface ViewWarmPoolPorts {
  db(): Db
  organisation(id: string): Pick<OrganisationApi, 'pools'>
}

/** What is ready by the organisation's books, and what the configuration wants. */
export async function viewWarmPool(
  ports: ViewWarmPoolPorts,
  key: ConfigurationKey,
): Promise<WarmPoolView> {
  const { warmPool } = await loadConfiguration(ports.db(), key)
  const view = await ports.organisation(key.organisationId).pools.view(key.configurationId)
  return { ...view, ...warmPool }
}
