import { createLibsql } from '../../src/adapters/libsql.ts'
import { webhookTargetRefusal } from '../../src/adapters/webhook-target.ts'
import type { CheckResult, OfferedProvider } from '../../src/contract/provider.ts'
import { Readiness } from '../../src/contract/status.ts'
import type { Db } from '../../src/core/ports.ts'
import { checkProvider } from '../../src/core/verbs/check-provider.ts'
import { type Config, readConfig } from '../../src/config.ts'
import { databaseReadiness, configurationReadiness } from '../../src/http/kit/readiness.ts'
import { createParts } from '../../src/parts.ts'
import { type Admin, adminCommandLibsql } from './commands.ts'

/** Everything that a deployment with these variables would need. Only asks, but for one row that shows a write. */
export async function checkAdminEnvironment({ environment, say }: Admin): Promise<boolean> {
  const { config, problems } = readConfig(environment)
  const checks = [
    ...configurationReadiness(problems),
    ...(problems.some(({ name }) => name.startsWith('LIBSQL_'))
      ? []
      : await checkStored(createLibsql(adminCommandLibsql(environment)))),
    ...(config === null ? [] : [...(await checkProviders(config)), checkModels(config)]),
  ]
  const isGood = tell(checks, say)
  if (config === null && environment['LIBSQL_URL'] === undefined)
    say('The stack of "npm start" has its own: --deployment URL, with the address that it prints')
  return isGood
}

/** What a deployment that runs says of itself. */
export async function checkAdminDeployment({ say }: Admin, url: string): Promise<boolean> {
  const address = `${url.replace(/\/+$/, '')}/readyz`
  const answer = await fetch(address, { signal: AbortSignal.timeout(30_000) }).catch(
    (error: unknown) => {
      throw new Error(`Cannot reach ${address}: ${String((error as Error).cause ?? error)}`)
    },
  )
  const read = Readiness.safeParse(await answer.json().catch(() => null))
  if (!read.success) throw new Error(`${address} is not a Gantry: it answered ${answer.status}`)
  say(`Gantry ${read.data.version} at ${url}`)
  return tell(read.data.checks, say)
}

async function checkStored(db: Db): Promise<CheckResult[]> {
  const checks = await databaseReadiness(db)
  return checks.every(({ ok }) => ok) ? [...checks, await checkKeys(db)] : checks
}

async function checkKeys(db: Db): Promise<CheckResult> {
  const name = 'organisations'
  const [count] = await db.all<{ organisations: number; keys: number }>(
    `select (select count(*) from organisations) as organisations,
      (select count(*) from api_keys where revoked_at is null and coalesce(expires_at, ?) >= ?) as keys`,
    Date.now(),
    Date.now(),
  )
  const message = `${counted(count?.organisations, 'organisation')}, ${counted(count?.keys, 'active key')}`
  if (count?.keys) return { name, ok: true, message, hint: null }
  const hint = 'Run "npm run admin -- create-organisation", then "create-key"'
  return { name, ok: false, message, hint }
}

const counted = (count = 0, what = ''): string => `${count} ${what}${count === 1 ? '' : 's'}`

async function checkProviders(config: Config): Promise<CheckResult[]> {
  const { providers } = createParts(config)
  if (providers.ofDeployment.length === 0)
    return [
      {
        name: 'providers',
        ok: true,
        message: 'The deployment has none: each organisation needs credentials of its own',
        hint: null,
      },
    ]
  const unreachable = (url: string) => webhookTargetRefusal(url, false)
  // The name of no organisation, so that none has credentials of its own.
  const reports = await Promise.all(
    providers.ofDeployment.map((name) =>
      checkProvider({ providers, config, unreachable }, name, ''),
    ),
  )
  return reports.flatMap(({ provider, checks }) => checks.map(named(provider)))
}

const named = (provider: OfferedProvider) => (check: CheckResult) => ({
  ...check,
  name: `${provider}: ${check.name}`,
})

function checkModels({ models }: Config): CheckResult {
  const name = 'models'
  const set = Object.entries(models).flatMap(([vendor, value]) => (value === null ? [] : [vendor]))
  if (set.length > 0) return { name, ok: true, message: set.join(', '), hint: null }
  return {
    name,
    ok: false,
    message: 'No model can be called',
    hint: 'Set ANTHROPIC_API_KEY, or GANTRY_MODEL_BASE_URL and GANTRY_MODEL_API_KEY',
  }
}

function tell(checks: CheckResult[], say: Admin['say']): boolean {
  for (const { name, ok, message, hint } of checks) {
    say(`${ok ? 'ok     ' : 'missing'}  ${name.padEnd(20)} ${message}`)
    if (hint !== null) say(`${' '.repeat(30)}${hint}`)
  }
  const missing = checks.filter(({ ok }) => !ok).length
  say(missing === 0 ? 'Nothing is missing' : `${missing} of ${checks.length} checks failed`)
  return missing === 0
}
