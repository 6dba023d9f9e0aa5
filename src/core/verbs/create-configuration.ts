import type { Configuration, ConfigurationCreate } from '../../contract/configuration.ts'
import { AppError } from '../../contract/error.ts'
import { modelRows, parseModel } from '../../contract/models.ts'
import type { ProviderName } from '../../contract/sandbox.ts'
import type { WarmPool } from '../../contract/warm-pool.ts'
import type { OrganisationApi } from '../organisation/organisation.ts'
import type { Clock, Crypto, Db } from '../ports.ts'
import { insertConfiguration as storeConfiguration } from '../registry/configurations/configurations.ts'
import type { Caller } from '../session/record/caller.ts'
import { mustMayCloneRepository } from './local-repository.ts'

export interface ConfigurationPorts {
  db(): Db
  crypto: Crypto
  now: Clock
  organisation(id: string): Pick<OrganisationApi, 'pools'>
  config: {
    defaultSandbox: ProviderName
    extraModels: readonly string[]
    localRepositories: readonly string[]
  }
}

/** If the pool is not told of it, it hears of it with the next session that is created. */
export async function createConfiguration(
  ports: ConfigurationPorts,
  caller: Pick<Caller, 'organisationId' | 'scopes'>,
  input: ConfigurationCreate,
): Promise<Configuration> {
  const { organisationId } = caller
  mustMayCloneRepository(ports.config, caller, input.repository?.url)
  const checked = checkConfiguration(ports, input)
  const { crypto, now } = ports
  const made = await storeConfiguration(ports.db(), crypto, now(), organisationId, checked)
  if (made.warmPool.size > 0) await ports.organisation(organisationId).pools.watch(made.id)
  return made
}

interface Checked {
  defaultModel?: string | null | undefined
  warmPool?: WarmPool | undefined
}

/** What a deployment cannot serve is refused. Whatever the spelling, the model table's own id is stored. */
export function checkConfiguration<T extends Checked>(
  { config }: Pick<ConfigurationPorts, 'config'>,
  input: T,
): T {
  const models = modelRows(config.extraModels)
  const checked = input.defaultModel
    ? { ...input, defaultModel: parseModel(input.defaultModel, models).id }
    : input
  mustHaveProvider(config, input.warmPool)
  return checked
}

function mustHaveProvider(
  { defaultSandbox }: ConfigurationPorts['config'],
  pool: WarmPool | undefined,
): void {
  if (!pool || pool.size === 0 || defaultSandbox !== 'none') return
  const message = 'This deployment has no default sandbox provider: set GANTRY_DEFAULT_SANDBOX'
  throw new AppError('unprocessable', `Cannot keep a warm pool: ${message}`, [
    { path: 'warmPool.size', message },
  ])
}
