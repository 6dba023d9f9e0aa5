import { errorCodeOf } from '../../contract/error.ts'
import {
  type CheckResult,
  type OfferedProvider,
  type ProviderReport,
  RemoteProvider,
} from '../../contract/provider.ts'
import type { ProviderChecks, Providers } from '../registry/providers.ts'

interface CheckProviderPorts {
  providers: Pick<Providers, 'check'>
  config: { publicUrl: string }
  /** Why the internet cannot reach this address; null if it can. */
  unreachable: (url: string) => string | null
}

/** One result per check, in the order in which they should be put right. */
export async function checkProvider(
  ports: CheckProviderPorts,
  provider: OfferedProvider,
  organisationId: string,
): Promise<ProviderReport> {
  const isRemote = RemoteProvider.safeParse(provider).success
  const { source, checks: own, trouble } = await ask(ports, provider, organisationId)
  const checks = [
    trouble ?? credentialsCheck(provider, source),
    ...(isRemote ? [publicUrlCheck(ports)] : []),
    ...own,
  ]
  return { provider, ok: checks.every(({ ok }) => ok), source, checks }
}

async function ask(
  { providers }: CheckProviderPorts,
  provider: OfferedProvider,
  organisationId: string,
): Promise<ProviderChecks & { trouble: CheckResult | null }> {
  try {
    return { ...(await providers.check(provider, organisationId)), trouble: null }
  } catch (error) {
    if (errorCodeOf(error) !== 'sandbox_unavailable') throw error
    const { message } = error as Error
    const hint = 'Look at GET /v1/status for the database, then check again'
    return { source: null, checks: [], trouble: { name: 'credentials', ok: false, message, hint } }
  }
}

const settings: Record<OfferedProvider, string> = {
  local: 'SANDBOX_HOST_URL, SANDBOX_HOST_SECRET and SANDBOX_ROOT for the deployment',
  e2b: 'the own ones with PUT /v1/providers/e2b/credentials, or GANTRY_E2B_API_KEY for the deployment',
  modal:
    'the own ones with PUT /v1/providers/modal/credentials, or GANTRY_MODAL_URL and GANTRY_MODAL_SECRET for the deployment',
}

function credentialsCheck(
  provider: OfferedProvider,
  source: ProviderReport['source'],
): CheckResult {
  const name = 'credentials'
  if (source !== null) return { name, ok: true, message: `Those of the ${source}`, hint: null }
  return { name, ok: false, message: 'There are none', hint: `Set ${settings[provider]}` }
}

/** A sandbox elsewhere calls the control plane, and sends its token with every call. */
function publicUrlCheck({ config, unreachable }: CheckProviderPorts): CheckResult {
  const name = 'public URL'
  const { publicUrl } = config
  const refusal = unreachable(publicUrl)
  if (refusal === null)
    return { name, ok: true, message: `Sandboxes call ${publicUrl}`, hint: null }
  return {
    name,
    ok: false,
    message: `Sandboxes elsewhere cannot call ${publicUrl}: ${refusal}`,
    hint: 'Set GANTRY_PUBLIC_URL to the https address at which the internet reaches this deployment, such as that of a tunnel',
  }
}
