import { targetRefusal } from '../adapters/webhook-target.ts'
import { errorCodeOf } from '../contract/error.ts'
import {
  type CheckResult,
  type OfferedProvider,
  type ProviderReport,
  RemoteProvider,
} from '../contract/provider.ts'
import type { ProviderChecks } from '../core/providers/providers.ts'
import type { AppDeps } from './deps.ts'

/** One result per check, in the order in which they should be put right. */
export async function checkProvider(
  deps: Pick<AppDeps, 'providers' | 'config'>,
  provider: OfferedProvider,
  organisationId: string,
): Promise<ProviderReport> {
  const isRemote = RemoteProvider.safeParse(provider).success
  const { source, checks: own, trouble } = await ask(deps, provider, organisationId)
  const checks = [
    trouble ?? credentialsCheck(provider, source),
    ...(isRemote ? [publicUrlCheck(deps.config.publicUrl)] : []),
    ...own,
  ]
  return { provider, ok: checks.every(({ ok }) => ok), source, checks }
}

async function ask(
  { providers }: Pick<AppDeps, 'providers'>,
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
function publicUrlCheck(publicUrl: string): CheckResult {
  const name = 'public URL'
  const refusal = targetRefusal(publicUrl, false)
  if (refusal === null)
    return { name, ok: true, message: `Sandboxes call ${publicUrl}`, hint: null }
  return {
    name,
    ok: false,
    message: `Sandboxes elsewhere cannot call ${publicUrl}: ${refusal}`,
    hint: 'Set GANTRY_PUBLIC_URL to the https address at which the internet reaches this deployment, such as that of a tunnel',
  }
}
