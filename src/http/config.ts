import { z } from 'zod'
import { bytesFromBase64 } from '../adapters/base64.ts'
import type { SecretKey } from '../adapters/secret-key.ts'
import { Firewall } from '../contract/limits.ts'
import type { E2bCredentials, ModalCredentials } from '../contract/provider.ts'
import { ProviderName } from '../contract/session.ts'

export type ModelProvider = 'anthropic' | 'litellm'
export interface ModelVendor {
  baseUrl: string
  apiKey: string
}

export interface Config {
  libsql: { url: string; token: string | null }
  idSecret: Uint8Array<ArrayBuffer>
  tokenKeys: SecretKey[]
  sealKeys: SecretKey[]
  /** Where sandboxes reach the control plane. No slash at the end. */
  publicUrl: string
  sandboxHost: { url: string; secret: string; root: string } | null
  /** The deployment's own accounts, for organisations that have none. */
  e2b: E2bCredentials | null
  modal: ModalCredentials | null
  /** Of everything that this deployment makes at a vendor. */
  deploymentLabel: string
  defaultSandbox: ProviderName
  models: Record<ModelProvider, ModelVendor | null>
  /** Served beside the table's; the first is the model of sessions that name none. */
  extraModels: string[]
  rateLimitPerMinute: number
  /** What bounds the sandboxes of every organisation. */
  firewall: Firewall
  /** Whose bearer may stop the whole deployment. */
  operatorKey: string | null
  retentionDays: number
  crashUrl: string | null
}

const url = (protocols: RegExp) =>
  z
    .url({ protocol: protocols, error: 'Must be a URL' })
    .transform((text) => text.replace(/\/+$/, ''))
const httpUrl = url(/^https?$/)
const whole = (least: number, unset: number) =>
  z.coerce.number({ error: 'Must be a number' }).int().min(least).default(unset)

const secretText = z.string().min(8, { error: 'Must have at least 8 characters' })
const secretBytes = (least: number) =>
  z.string().transform((text, context) => {
    const bytes = decode(text)
    if (bytes && bytes.length >= least) return bytes
    context.addIssue({ code: 'custom', message: `Must be base64 of at least ${least} bytes` })
    return z.NEVER
  })

/** `kid:base64[,kid:base64]` */
const secretKeys = (fits: (bytes: number) => boolean, wanted: string) =>
  z.string().transform((text, context) => {
    const keys: SecretKey[] = []
    for (const part of text.split(',')) {
      const [, id, body] = /^\s*([A-Za-z0-9_-]{1,32}):(\S+)\s*$/.exec(part) ?? []
      const secret = decode(body ?? '')
      if (id === undefined || !secret || !fits(secret.length) || keys.some((k) => k.id === id)) {
        context.addIssue({
          code: 'custom',
          message: `Must be "kid:base64[,kid:base64]" with distinct key ids and ${wanted} each`,
        })
        return z.NEVER
      }
      keys.push({ id, secret })
    }
    return keys
  })

const firewall = z.string().transform((text, context) => {
  const parsed = Firewall.safeParse(decodeJson(text))
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  const where = issue?.path.length ? `, wrong at "${issue.path.join('.')}"` : ''
  context.addIssue({ code: 'custom', message: `Must be a JSON object of limits${where}` })
  return z.NEVER
})

const Environment = z.object({
  LIBSQL_URL: url(/^(https?|libsql)$/),
  LIBSQL_TOKEN: z.string().optional(),
  GANTRY_ID_SECRET: secretBytes(16),
  GANTRY_TOKEN_KEYS: secretKeys((bytes) => bytes >= 32, 'at least 32 bytes'),
  GANTRY_SEAL_KEYS: secretKeys((bytes) => bytes === 32, '32 bytes'),
  GANTRY_PUBLIC_URL: httpUrl,
  SANDBOX_HOST_URL: httpUrl.optional(),
  SANDBOX_HOST_SECRET: z.string().optional(),
  SANDBOX_ROOT: z.string().startsWith('/', { error: 'Must be an absolute path' }).optional(),
  GANTRY_DEFAULT_SANDBOX: ProviderName.optional(),
  GANTRY_E2B_API_KEY: secretText.optional(),
  GANTRY_E2B_API_URL: httpUrl.optional(),
  GANTRY_E2B_SANDBOX_URL: httpUrl.optional(),
  GANTRY_E2B_TEMPLATE: z.string().max(200).default('gantry'),
  GANTRY_MODAL_URL: httpUrl.optional(),
  GANTRY_MODAL_SECRET: secretText.optional(),
  GANTRY_DEPLOYMENT_LABEL: z
    .string()
    .regex(/^[a-z0-9-]{1,40}$/, { error: 'Must be lower-case letters, digits and "-", at most 40' })
    .default('gantry'),
  ANTHROPIC_API_KEY: z.string().optional(),
  ANTHROPIC_BASE_URL: httpUrl.default('https://api.anthropic.com'),
  GANTRY_MODEL_BASE_URL: httpUrl.optional(),
  GANTRY_MODEL_API_KEY: z.string().optional(),
  GANTRY_MODEL: z.string().optional(),
  RATE_LIMIT_PER_MINUTE: whole(1, 3000),
  GANTRY_LIMITS: firewall.default(() => Firewall.parse({})),
  GANTRY_OPERATOR_KEY: z.string().min(32, { error: 'Must have at least 32 characters' }).optional(),
  RETENTION_DAYS: whole(1, 30),
  GANTRY_CRASH_URL: httpUrl.optional(),
})

/** Names every variable that is missing or wrong. Values never appear in the message: most of them are secret. */
export function parseConfig(environment: Record<string, string | undefined>): Config {
  const set = Object.fromEntries(
    Object.keys(Environment.shape).flatMap((name) => {
      const value = environment[name]?.trim()
      return value ? [[name, value]] : []
    }),
  )
  const parsed = Environment.safeParse(set)
  const problems = parsed.success
    ? missingPartners(parsed.data)
    : parsed.error.issues.map(({ path, message }) => {
        const name = String(path[0])
        return `${name}: ${name in set ? message : 'is not set'}`
      })
  if (!parsed.success || problems.length > 0) {
    throw new Error(`Cannot start: the environment is not complete\n  ${problems.join('\n  ')}`)
  }
  return configOf(parsed.data)
}

type Environment = z.output<typeof Environment>

/** Variables that mean something only together. */
function missingPartners(env: Environment): string[] {
  const together = [
    ['SANDBOX_HOST_URL', 'SANDBOX_HOST_SECRET', 'SANDBOX_ROOT'],
    ['GANTRY_MODEL_BASE_URL', 'GANTRY_MODEL_API_KEY'],
    ['GANTRY_MODAL_URL', 'GANTRY_MODAL_SECRET'],
  ] as const
  const problems = together.flatMap((names) => {
    const isSet = names.filter((name) => env[name] !== undefined)
    const missing = names.filter((name) => env[name] === undefined)
    return isSet.length === 0 ? [] : missing.map((name) => `${name}: is needed with ${isSet[0]}`)
  })
  if (env.GANTRY_DEFAULT_SANDBOX === 'local' && env.SANDBOX_HOST_URL === undefined) {
    problems.push('SANDBOX_HOST_URL: is needed with GANTRY_DEFAULT_SANDBOX=local')
  }
  return problems
}

function configOf(env: Environment): Config {
  const hasHost = env.SANDBOX_HOST_URL && env.SANDBOX_HOST_SECRET && env.SANDBOX_ROOT
  return {
    libsql: { url: env.LIBSQL_URL, token: env.LIBSQL_TOKEN ?? null },
    idSecret: env.GANTRY_ID_SECRET,
    tokenKeys: env.GANTRY_TOKEN_KEYS,
    sealKeys: env.GANTRY_SEAL_KEYS,
    publicUrl: env.GANTRY_PUBLIC_URL,
    sandboxHost: hasHost
      ? {
          url: env.SANDBOX_HOST_URL as string,
          secret: env.SANDBOX_HOST_SECRET as string,
          root: env.SANDBOX_ROOT as string,
        }
      : null,
    e2b: e2bOf(env),
    modal:
      env.GANTRY_MODAL_URL && env.GANTRY_MODAL_SECRET
        ? { url: env.GANTRY_MODAL_URL, secret: env.GANTRY_MODAL_SECRET }
        : null,
    deploymentLabel: env.GANTRY_DEPLOYMENT_LABEL,
    defaultSandbox: env.GANTRY_DEFAULT_SANDBOX ?? 'none',
    models: {
      anthropic: vendor(env.ANTHROPIC_BASE_URL, env.ANTHROPIC_API_KEY),
      litellm: vendor(env.GANTRY_MODEL_BASE_URL, env.GANTRY_MODEL_API_KEY),
    },
    extraModels: (env.GANTRY_MODEL ?? '')
      .split(',')
      .map((name) => name.trim())
      .filter((name) => name !== ''),
    rateLimitPerMinute: env.RATE_LIMIT_PER_MINUTE,
    firewall: env.GANTRY_LIMITS,
    operatorKey: env.GANTRY_OPERATOR_KEY ?? null,
    retentionDays: env.RETENTION_DAYS,
    crashUrl: env.GANTRY_CRASH_URL ?? null,
  }
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

function decode(text: string): Uint8Array<ArrayBuffer> | null {
  try {
    return bytesFromBase64(text)
  } catch {
    return null
  }
}

function decodeJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
