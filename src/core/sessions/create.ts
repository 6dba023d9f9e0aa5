import { AppError } from '../../contract/error.ts'
import { deriveMode } from '../../contract/mode.ts'
import { parseModel, reasoningOptions } from '../../contract/models.ts'
import type { ProviderName } from '../../contract/session.ts'
import type { CreateSession } from './api.ts'
import type { SessionPorts } from './ports.ts'
import type { NewSession } from './record.ts'

/** Works out what the session will be, or refuses: nothing is written yet. */
export async function planSession(ports: SessionPorts, create: CreateSession): Promise<NewSession> {
  const { input } = create
  const configuration = create.configuration ?? null
  const { sessionType, clientType } = input
  const mode = deriveMode({ configurationId: configuration?.id ?? null, sessionType, clientType })
  if (configuration === null) refuseWithoutConfiguration(create)
  const wanted = input.model ?? configuration?.defaultModel ?? ports.config.defaultModel
  const model = parseModel(wanted, ports.config.models)
  reasoningOptions(model, input.reasoningEffort ?? null)
  return {
    provider: chooseProvider(ports, create),
    mode,
    model: model.id,
    repository: await sealRepository(ports, create),
    markerNonce: ports.crypto.random(20),
  }
}

/** Without a configuration a session is scratch, whatever else it asks to be: better refused than silently so. */
function refuseWithoutConfiguration({ input }: CreateSession): void {
  if (input.sessionType === 'setup') throw needsConfiguration('A setup session')
  if (input.clientType === 'automation') throw needsConfiguration('An automation')
}

function needsConfiguration(what: string): AppError {
  return new AppError('unprocessable', `${what} needs a configuration`, [
    { path: 'configurationId', message: 'Required here' },
  ])
}

function chooseProvider(ports: SessionPorts, { input }: CreateSession): ProviderName {
  const provider = input.sandbox ?? ports.config.defaultSandbox
  if (provider === 'none' || ports.provider(provider)) return provider
  throw new AppError('unprocessable', `No sandbox provider "${provider}" is configured`, [
    { path: 'sandbox', message: 'Not configured in this deployment' },
  ])
}

async function sealRepository(
  ports: SessionPorts,
  create: CreateSession,
): Promise<NewSession['repository']> {
  const { repository } = create.input
  if (!repository) return create.configuration?.repository ?? null
  const token = repository.token ? await ports.crypto.seal(repository.token) : null
  return { url: repository.url, ref: repository.ref ?? null, token }
}
