import { ownedId } from '../../contract/ids.ts'
import { appendEvent } from './log/events.ts'
import { AppError } from '../../contract/error.ts'
import { deriveMode } from '../../contract/mode.ts'
import { type Model, parseModel, modelReasoningOptions } from '../../contract/models.ts'
import type { ProviderName } from '../../contract/session.ts'
import type { CreateSession } from './record/record.ts'
import type { Crypto, Sql } from '../ports.ts'
import { saveSpendingLimits } from './budget/spending.ts'
import { saveAttemptTerms } from './record/attempt-terms.ts'
import { budgetMustHavePrice } from './budget/budget.ts'
import { savePolicyRow } from './gate/policy-row.ts'
import { agentsInPins, modelIn, modelsOfSubagents } from './pins/agents.ts'
import { mustBeFewPins, savePins } from './pins/pins.ts'
import { startAutomationRun } from './automation/automation.ts'
import type { SessionKernel } from './record/kernel.ts'
import { startSandbox } from './generations/sandbox-start.ts'
import type { SessionPorts } from './record/ports.ts'
import { insertSession, type NewSession } from './record/record.ts'
import { knownSecrets, openSecrets, secretRedactor, saveEnvSecrets } from './record/secrets.ts'

/** The first write of all. The same request may arrive twice while the first one is being worked out. */
export async function commitNewSession(
  kernel: SessionKernel,
  create: CreateSession,
): Promise<void> {
  const { ports } = kernel
  const plan = await planSession(ports, create)
  if (kernel.created) return
  kernel.commit((sql, now) => {
    kernel.createTables()
    insertSession(sql, now, create, plan)
    const { title, provider } = plan
    appendEvent(sql, now, 'session.created', { project: kernel.session().project, title, provider })
    saveEnvSecrets(sql, now, create.secrets ?? [])
    savePolicyRow(sql, create.policy ?? null)
    savePins(sql, now, plan.pins)
    if (create.attempt) saveAttemptTerms(sql, create.attempt)
    if (plan.mode === 'automation') startAutomation(sql, now, create, ports.crypto)
    // After the run, which waits for it if it is nothing.
    if (create.input.budget) saveSpendingLimits(sql, now, create.input.budget, create.keyId)
    if (plan.provider !== 'none') startSandbox(sql, now)
  })
  await kernel.crash('session.created')
}

function startAutomation(
  sql: Sql,
  now: number,
  { input, sessionId }: CreateSession,
  crypto: Crypto,
): void {
  const id = input.automationRunId ?? `arn_${crypto.random(20)}`
  startAutomationRun(sql, now, id, ownedId('run', sessionId, crypto.random(8)))
}

/** Works out what the session will be, or refuses: nothing is written yet. */
export async function planSession(ports: SessionPorts, create: CreateSession): Promise<NewSession> {
  const { input } = create
  const configuration = create.configuration ?? null
  const { sessionType, clientType } = input
  const mode = deriveMode({ configurationId: configuration?.id ?? null, sessionType, clientType })
  if (configuration === null) refuseWithoutConfiguration(create)
  const model = chooseModel(ports, create)
  modelReasoningOptions(model, input.reasoningEffort ?? null)
  mustHavePrices(ports, create, model)
  mustBeFewPins(create.pins ?? [])
  const repository = await sealRepository(ports, create)
  return {
    provider: await chooseProvider(ports, create),
    mode,
    model: model.id,
    repository,
    markerNonce: ports.crypto.random(20),
    ...(await redactTexts(ports, create, repository?.token ?? null)),
  }
}

/** The caller's own word, then the agent's, then the profile's, then the configuration's. */
function chooseModel(
  ports: SessionPorts,
  { input, configuration, pins = [] }: CreateSession,
): Model {
  const { defaultModel, models } = ports.config
  const wanted = input.model ?? modelIn(pins) ?? configuration?.defaultModel ?? defaultModel
  return parseModel(wanted, models)
}

/** Of all models that may be called in it: a subagent may have one of its own. */
function mustHavePrices(
  ports: SessionPorts,
  { input, pins = [] }: CreateSession,
  own: Model,
): void {
  const others = modelsOfSubagents(agentsInPins(pins)).map(
    (id) => parseModel(id, ports.config.models).id,
  )
  for (const id of [own.id, ...others]) budgetMustHavePrice({ ports }, id, input.budget ?? {})
}

/** What a caller wrote is stored without the values that its session is about to be given. */
async function redactTexts(
  { crypto }: SessionPorts,
  { input, secrets = [], pins = [] }: CreateSession,
  sealedToken: string | null,
): Promise<Pick<NewSession, 'title' | 'systemPrompt' | 'agentConfig' | 'pins'>> {
  const texts = {
    title: input.title,
    systemPrompt: input.system_prompt ?? null,
    agentConfig: input.agent_config ?? { agentType: 'opencode' as const },
    pins: [...pins],
  }
  const token = sealedToken === null ? null : await crypto.unseal(sealedToken)
  const redactor = secretRedactor(knownSecrets(await openSecrets(secrets, crypto), token))
  return redactor === null ? texts : redactor.redactJson(texts)
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

const takesImages: readonly ProviderName[] = ['e2b', 'modal']

const noImages = (provider: ProviderName) =>
  new AppError('invalid_request', `Cannot use an image: sandbox "${provider}" has none`, [
    { path: 'image', message: `Only ${takesImages.join(' and ')} take one: leave it out here` },
  ])

async function chooseProvider(
  ports: SessionPorts,
  { input, organisationId }: CreateSession,
): Promise<ProviderName> {
  const provider = input.sandbox ?? ports.config.defaultSandbox
  if (input.image !== undefined && !takesImages.includes(provider)) throw noImages(provider)
  if (provider === 'none' || (await ports.provider(provider, organisationId))) return provider
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
