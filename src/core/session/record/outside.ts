import type { OrganisationApi } from '../../organisation/organisation.ts'
import type { SandboxProvider } from '../../ports.ts'
import type { SessionKernel } from './kernel.ts'

/** The provider of this session's sandboxes. */
export async function outsideProvider(kernel: SessionKernel): Promise<SandboxProvider> {
  const { provider, organisationId } = kernel.session()
  const found = await kernel.ports.provider(provider, organisationId)
  if (!found) throw new Error(`No sandbox provider "${provider}" is configured`)
  return found
}

export function outsideOrganisation(kernel: SessionKernel): OrganisationApi {
  return kernel.ports.organisation(kernel.session().organisationId)
}

export const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error)
