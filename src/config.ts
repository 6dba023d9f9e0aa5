import { z } from 'zod'
import type { SecretKey } from './adapters/secret-key.ts'
import type { EnclosureMode, UnwalledApprovals } from './contract/enclosure.ts'
import { AppError } from './contract/error.ts'
import { parseEvidenceMode, type ProofMode } from './contract/evidence.ts'
import type { Firewall } from './contract/limits.ts'
import { defaultModelId, scriptedModelId } from './contract/models.ts'
import type { E2bCredentials, ModalCredentials, OfferedProvider } from './contract/provider.ts'
import type { ProviderName } from './contract/session.ts'
import type { LogLevel } from './core/ports.ts'
import { Environment, type VariableName, variableNames } from './variables.ts'

export const ModelProvider = z.enum(['anthropic', 'litellm'])
export type ModelProvider = z.infer<typeof ModelProvider>
export interface ModelVendor {
  baseUrl: string
  apiKey: string
}

export interface Config {
  libsql: { url: string; token: string | null }
  idSecret: Uint8Array<ArrayBuffer>
  tokenKeys: SecretKey[]
  sealKeys: SecretKey[]
  /** Sign what strangers verify. None: nothing is exported. */
  exportKeys: SecretKey[]
  /** Where sandboxes reach the control plane. No slash at the end. */
  publicUrl: string
  sandboxHost: { url: string; secret: string; root: string } | null
  /** Folders and ssh addresses whose repositories the sandbox host may clone with its own rights. */
  localRepositories: string[]
  /** The deployment's own accounts, for organisations that have none. */
  e2b: E2bCredentials | null
  modal: ModalCredentials | null
  /** Of everything that this deployment makes at a vendor. */
  deploymentLabel: string
  defaultSandbox: ProviderName
  models: Record<ModelProvider, ModelVendor | null>
  /** Served beside the table's; the first is the model of sessions that name none. */
  extraModels: string[]
  /** Fields and tools of model calls that sandboxes may use beside the usual ones. */
  modelExtras: string[]
  rateLimitPerMinute: number
  /** What bounds the sandboxes of every organisation. */
  firewall: Firewall
  /** Whose bearer may stop the whole deployment. */
  operatorKey: string | null
  /** Of sandboxes that are started from now on. */
  enclosure: EnclosureMode
  /** How far evidence of changes is applied. */
  proofMode: ProofMode
  /** Whether people may approve what a sandbox without an enclosure asks. */
  unwalledApprovals: UnwalledApprovals
  /** `host:port`, lower case. */
  privateHosts: string[]
  retentionDays: number
  /** Log lines below it are not written. */
  logLevel: LogLevel
  crashUrl: string | null
}

/** The model of sessions that name none. */
export function configDefaultModel({
  models,
  extraModels,
}: Pick<Config, 'models' | 'extraModels'>): string {
  return extraModels[0] ?? (models.anthropic ? defaultModelId : scriptedModelId)
}

/** A variable that is missing or wrong. Its value is never in it: most of them are secret. */
export interface Problem {
  name: string
  problem: string
}

export type ConfigRead = { config: Config; problems: [] } | { config: null; problems: Problem[] }

/** Finds every problem at once. */
export function readConfig(environment: Record<string, string | undefined>): ConfigRead {
  const set: Partial<Record<VariableName, string>> = Object.fromEntries(
    variableNames.flatMap((name) => {
      const value = environment[name]?.trim()
      return value ? [[name, value]] : []
    }),
  )
  const parsed = Environment.safeParse(set)
  const problems = [
    ...(parsed.error?.issues ?? []).map(({ path, message }) => {
      const name = String(path[0])
      return { name, problem: name in set ? message : 'is not set' }
    }),
    ...missingPartners(set),
    ...(parsed.success ? exampleSecrets(parsed.data) : []),
  ]
  if (!parsed.success || problems.length > 0) return { config: null, problems }
  return { config: configOf(parsed.data), problems: [] }
}

export function parseConfig(environment: Record<string, string | undefined>): Config {
  const { config, problems } = readConfig(environment)
  if (config !== null) return config
  const lines = problems.map(({ name, problem }) => `${name}: ${problem}`)
  throw new Error(`Cannot start: the environment is not complete\n  ${lines.join('\n  ')}`)
}

/** Retryable: it is over once the deployment has its variables. */
export function notConfigured(problems: readonly Problem[]): AppError {
  const details = problems.map(({ name, problem }) => ({ path: name, message: problem }))
  const names = [...new Set(problems.map(({ name }) => name))].join(', ')
  return new AppError('not_configured', `The deployment is not configured: ${names}`, details)
}

/** Variables that mean something only together. */
function missingPartners(env: Partial<Record<VariableName, string>>): Problem[] {
  const together = [
    ['SANDBOX_HOST_URL', 'SANDBOX_HOST_SECRET', 'SANDBOX_ROOT'],
    ['GANTRY_MODEL_BASE_URL', 'GANTRY_MODEL_API_KEY'],
    ['GANTRY_MODAL_URL', 'GANTRY_MODAL_SECRET'],
  ] as const
  const problems = together.flatMap((names) => {
    const isSet = names.filter((name) => env[name] !== undefined)
    const missing = names.filter((name) => env[name] === undefined)
    return isSet.length === 0
      ? []
      : missing.map((name) => ({ name, problem: `is needed with ${isSet[0]}` }))
  })
  if (env.GANTRY_DEFAULT_SANDBOX === 'local' && env.SANDBOX_HOST_URL === undefined) {
    problems.push({
      name: 'SANDBOX_HOST_URL',
      problem: 'is needed with GANTRY_DEFAULT_SANDBOX=local',
    })
  }
  return problems
}

/** Of .dev.vars.example, which everybody knows. */
export const exampleSecret = 'development-only-not-for-deploys'

function exampleSecrets(env: Environment): Problem[] {
  if (isLoopback(env.GANTRY_PUBLIC_URL)) return []
  const isExample = (secret: Uint8Array) => new TextDecoder().decode(secret) === exampleSecret
  const found = [
    ...(isExample(env.GANTRY_ID_SECRET) ? ['GANTRY_ID_SECRET'] : []),
    ...(env.GANTRY_TOKEN_KEYS.some(({ secret }) => isExample(secret)) ? ['GANTRY_TOKEN_KEYS'] : []),
    ...(env.GANTRY_SEAL_KEYS.some(({ secret }) => isExample(secret)) ? ['GANTRY_SEAL_KEYS'] : []),
  ]
  const problem = 'is that of .dev.vars.example: make your own with "openssl rand -base64 32"'
  return found.map((name) => ({ name, problem }))
}

const isLoopback = (address: string) =>
  ['localhost', '127.0.0.1', '[::1]'].includes(new URL(address).hostname)

function configOf(env: Environment): Config {
  const sandboxHost = hostOf(env)
  const e2b = e2bOf(env)
  const modal = modalOf(env)
  return {
    libsql: { url: env.LIBSQL_URL, token: env.LIBSQL_TOKEN ?? null },
    idSecret: env.GANTRY_ID_SECRET,
    tokenKeys: env.GANTRY_TOKEN_KEYS,
    sealKeys: env.GANTRY_SEAL_KEYS,
    exportKeys: env.GANTRY_EXPORT_KEYS ?? [],
    publicUrl: env.GANTRY_PUBLIC_URL,
    sandboxHost,
    localRepositories: env.GANTRY_LOCAL_REPOSITORIES ?? [],
    e2b,
    modal,
    deploymentLabel: env.GANTRY_DEPLOYMENT_LABEL,
    defaultSandbox:
      env.GANTRY_DEFAULT_SANDBOX ?? firstConfigured({ local: sandboxHost, e2b, modal }),
    models: {
      anthropic: vendor(env.ANTHROPIC_BASE_URL, env.ANTHROPIC_API_KEY),
      litellm: vendor(env.GANTRY_MODEL_BASE_URL, env.GANTRY_MODEL_API_KEY),
    },
    extraModels: namesIn(env.GANTRY_MODEL),
    modelExtras: namesIn(env.GANTRY_MODEL_EXTRAS),
    rateLimitPerMinute: env.RATE_LIMIT_PER_MINUTE,
    firewall: env.GANTRY_LIMITS,
    operatorKey: env.GANTRY_OPERATOR_KEY ?? null,
    enclosure: env.GANTRY_ENCLOSURE,
    proofMode: parseEvidenceMode(env.OPENCODE_SNAPSHOT_PROOF_UPGRADE),
    unwalledApprovals: env.GANTRY_UNWALLED_APPROVALS,
    privateHosts: namesIn(env.GANTRY_PRIVATE_HOSTS.toLowerCase()),
    retentionDays: env.RETENTION_DAYS,
    logLevel: env.GANTRY_LOG_LEVEL,
    crashUrl: env.GANTRY_CRASH_URL ?? null,
  }
}

const namesIn = (list = ''): string[] =>
  list
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '')

/** In the order of their cost. */
function firstConfigured(accounts: Record<OfferedProvider, object | null>): ProviderName {
  return (['local', 'e2b', 'modal'] as const).find((name) => accounts[name] !== null) ?? 'none'
}

function hostOf(env: Environment): Config['sandboxHost'] {
  const { SANDBOX_HOST_URL: url, SANDBOX_HOST_SECRET: secret, SANDBOX_ROOT: root } = env
  return url && secret && root ? { url, secret, root } : null
}

function modalOf({ GANTRY_MODAL_URL: url, GANTRY_MODAL_SECRET: secret }: Environment) {
  return url && secret ? { url, secret } : null
}

function e2bOf(env: Environment): E2bCredentials | null {
  if (env.GANTRY_E2B_API_KEY === undefined) return null
  return {
    apiKey: env.GANTRY_E2B_API_KEY,
    apiUrl: env.GANTRY_E2B_API_URL,
    sandboxUrl: env.GANTRY_E2B_SANDBOX_URL,
    template: env.GANTRY_E2B_TEMPLATE,
  }
}

function vendor(baseUrl: string | undefined, apiKey: string | undefined): ModelVendor | null {
  return baseUrl !== undefined && apiKey !== undefined ? { baseUrl, apiKey } : null
}
