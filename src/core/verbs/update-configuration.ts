import type { Configuration, ConfigurationUpdate } from '../../contract/configuration.ts'
import {
  type ConfigurationKey,
  changeConfiguration as storeChange,
} from '../registry/configurations/configurations.ts'
import type { Caller } from '../session/record/caller.ts'
import { mustMayCloneRepository } from './local-repository.ts'
import { checkConfiguration, type ConfigurationPorts } from './create-configuration.ts'

/** A field that is given is replaced whole. The warm pool is told, since what it boots may have changed. */
export async function updateConfiguration(
  ports: ConfigurationPorts,
  key: ConfigurationKey & Pick<Caller, 'scopes'>,
  change: ConfigurationUpdate,
): Promise<Configuration> {
  mustMayCloneRepository(ports.config, key, change.repository?.url)
  const checked = checkConfiguration(ports, change)
  const changed = await storeChange(ports.db(), ports.crypto, ports.now(), key, checked)
  if (changed.warmPool.size > 0 || change.warmPool)
    await ports.organisation(key.organisationId).pools.watch(changed.id)
  return changed
}
