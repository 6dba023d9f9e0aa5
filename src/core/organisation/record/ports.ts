import type { Firewall } from '../../../contract/limits.ts'
import type { ProviderName } from '../../../contract/sandbox.ts'
import type { Clock, Crypto, Ledger, Log, SandboxProvider, Sql } from '../../ports.ts'
import type { DeploymentApi, Halt } from './api.ts'

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
  session(id: string): SessionOffers
  warm: WarmSource
  organisation(id: string): { deployment: DeploymentApi }
  ledger(organisationId: string): Ledger
  firewall: Firewall
  log: Log
}

/** What a session offers here. An old generation is left alone, another organisation's session is not found. */
export interface SessionOffers {
  self: { create(create: WarmCreate): Promise<unknown> }
  sandbox: {
    halt(sandbox: Sandbox, order: Halt): Promise<void>
    check(sandbox: Sandbox): Promise<void>
  }
  warm: {
    /** True: it is gone. False: somebody has got it. */
    drop(caller: { organisationId: string }, reason: string): Promise<boolean>
  }
}
interface Sandbox {
  organisationId: string
  generation: number
}

/** What a session is created from. A pool hands it from its source to the session and reads nothing of it. */
type SessionPlan = object
type WarmCreate = SessionPlan & { sessionId: string; warm?: boolean }

/** Where a pool learns what to boot. */
export interface WarmSource {
  /** As a new session of this configuration would be made. Null: it is gone. Throws while it cannot be read. */
  plan(organisationId: string, configurationId: string): Promise<WarmPlan | null>
  /** The version of everything that is fixed when a sandbox boots. */
  versionOf(prepared: { configuration?: object | null; secrets?: object }): Promise<string>
  mintSessionId(): Promise<string>
}
export interface WarmPlan {
  configurationId: string
  size: number
  version: string
  provider: ProviderName
  project: string
  create: SessionPlan
}
