import type { CheckResult, CredentialsSource, OfferedProvider } from '../../contract/provider.ts'
import type { ProviderName } from '../../contract/sandbox.ts'
import type { SandboxProvider } from '../ports.ts'

/** The sandbox providers of a deployment, each with the credentials that count for an organisation. */
export interface Providers {
  /**
   * With the organisation's own credentials, if it has some. Null: there are none at all. Throws, retryably, while
   * nobody can say whose count: the deployment's must not stand in for an organisation's own.
   */
  find(name: ProviderName, organisationId: string): Promise<SandboxProvider | null>
  /** What the provider says of itself. No secret is in it. */
  check(name: OfferedProvider, organisationId: string): Promise<ProviderChecks>
  /** Which ones work for an organisation that has no credentials of its own. */
  readonly ofDeployment: readonly OfferedProvider[]
  /** The organisation's own have changed: here at once, elsewhere within `rememberMs`. */
  forget(name: ProviderName, organisationId: string): void
}

export interface ProviderChecks {
  source: CredentialsSource | null
  checks: CheckResult[]
}

export const rememberMs = 30_000
