import type { Firewall } from '../../contract/limits.ts'
import type { ProviderName } from '../../contract/sandbox.ts'
import type { CreateSession } from '../sessions/api.ts'
import type { Clock, Crypto, Ledger, Log, SandboxProvider, Sql } from '../ports.ts'
import type { OrganisationApi } from './api.ts'

/** The one object that speaks for all organisations. No key belongs to it: ids of organisations begin with `org_`. */
export const deploymentId = 'deployment'

export interface OrganisationPorts {
  /** `org_…`, or `deploymentId`. */
  id: string
  sql: Sql
  host: { arm(at: number | null): void }
  now: Clock
  crypto: Pick<Crypto, 'random'>
  /** Null: not configured. */
  provider(name: ProviderName, organisationId: string): Promise<SandboxProvider | null>
  session(id: string): SandboxOwner & WarmOwner
  warm: WarmSource
  organisation(id: string): Pick<OrganisationApi, 'admitOrganisation' | 'hearDeployment'>
  ledger(organisationId: string): Ledger
  firewall: Firewall
  log: Log
}

/** What a session offers here. An old generation is left alone, another organisation's session is not found. */
export interface SandboxOwner {
  haltSandbox(sandbox: Sandbox, reason: string): Promise<void>
  checkSandbox(sandbox: Sandbox): Promise<void>
}
interface Sandbox {
  organisationId: string
  generation: number
}

/** What a session offers to its pool. */
export interface WarmOwner {
  create(create: CreateSession): Promise<unknown>
  /** True: it is gone. False: somebody has got it. */
  dropWarm(caller: { organisationId: string }, reason: string): Promise<boolean>
}

/** Where a pool learns what to boot. */
export interface WarmSource {
  /** As a new session of this configuration would be made. Null: it is gone. Throws while it cannot be read. */
  plan(organisationId: string, configurationId: string): Promise<WarmPlan | null>
  /** Of everything that is fixed when a sandbox boots. */
  versionOf(prepared: Pick<CreateSession, 'configuration' | 'secrets'>): Promise<string>
  mintSessionId(): Promise<string>
}
export interface WarmPlan {
  configurationId: string
  size: number
  version: string
  provider: ProviderName
  project: string
  create: Omit<CreateSession, 'sessionId' | 'warm'>
}
