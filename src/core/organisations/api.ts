import type {
  DeploymentKillSwitch,
  KillSwitch,
  KillSwitchChange,
} from '../../contract/kill-switch.ts'
import type { Amounts, Budget, SharedBudgetView } from '../../contract/budget.ts'
import type { LimitsChange, LimitsView, WorstCase } from '../../contract/limits.ts'
import type { ProviderName } from '../../contract/sandbox.ts'
import type { WarmPoolView } from '../../contract/warm-pool.ts'

/** The doors that are about sessions which are booted before anybody asks for them. */
export interface WarmPoolApi {
  /** A session that is ready for this creation, or null. The same creation gets the same answer, each session is given once. */
  claimWarm(claim: WarmClaim): Promise<string | null>
  /** The creation could not take it. */
  returnWarm(end: WarmEnd): Promise<void>
  /** The session's own: how it is. */
  warmChanged(sessionId: string, state: WarmState, reason: string | null): Promise<void>
  /** The configuration may want another pool than it has. */
  watchWarmPool(configurationId: string): Promise<void>
  warmPool(configurationId: string): Promise<WarmPoolView>
}
export interface WarmClaim {
  configurationId: string
  /** Of everything that is fixed at boot: a session of another version is not given. */
  version: string
  /** The id of the session that is made if there is no warm one. */
  creationId: string
  /** It was asked for before, and may have been made without a warm session: it gets the one that it has, or none. */
  isRepeat: boolean
}
export interface WarmEnd {
  creationId: string
  sessionId: string
  /** False: it is as it was, and may be given to others. */
  isGone: boolean
}
export type WarmState = 'starting' | 'ready' | 'claimed' | 'ended'
const warmPoolNames: Record<keyof WarmPoolApi, true> = {
  claimWarm: true,
  returnWarm: true,
  warmChanged: true,
  watchWarmPool: true,
  warmPool: true,
}
export const warmPoolDoors = Object.keys(warmPoolNames) as (keyof WarmPoolApi)[]

/** The doors of one organisation: the only place that decides across its sessions. */
export interface OrganisationApi extends WarmPoolApi {
  /**
   * The session that stands for this Idempotency-Key: `freshSessionId` the first time, the same one ever after.
   * The same key with another body is refused.
   */
  claimCreation(key: string, bodyHash: string, freshSessionId: string): Promise<string>
  /** An automation run belongs to one session: the first that claims its id. Claiming again is harmless. */
  claimRun(runId: string, sessionId: string): Promise<void>
  /** The session was not created after all. */
  releaseRun(runId: string, sessionId: string): Promise<void>
  /** The session is being deleted: its key must not bring it back, with tokens that are still valid. */
  endCreation(sessionId: string): Promise<void>

  /**
   * A place for one sandbox, before each call to the provider that creates it. Repeatable: the same session and
   * generation holds one place, and is told how much of its lifetime is left. Once ended it is not granted again.
   * Everything that bounds sandboxes is checked here and nowhere else: limits, breaker, kill switches.
   */
  reserveSandbox(claim: SandboxClaim): Promise<Reservation>
  /** Its agent has called: the breaker of its provider is reset. */
  sandboxConnected(sessionId: string, generation: number): Promise<void>
  /**
   * Frees the place and books the time: only once the provider has stopped it or does not know it. Repeatable; the
   * first outcome counts.
   */
  sandboxEnded(sessionId: string, generation: number, end: SandboxEnd): Promise<void>

  /** `project` null: of the whole organisation. */
  limits(project: string | null): Promise<LimitsView>
  setLimits(project: string | null, change: LimitsChange, actor: string): Promise<LimitsView>
  worstCase(project: string | null): Promise<WorstCase>

  /** What a session may use before it asks again. Repeatable by its number. */
  takeBudget(claim: BudgetClaim): Promise<BudgetAnswer>
  returnBudget(sessionId: string, number: number, spent: Amounts): Promise<void>
  budget(project: string | null): Promise<SharedBudgetView>
  /** Sessions that wait for it find out within seconds: they ask again. */
  setBudget(project: string | null, limits: Budget, actor: string): Promise<SharedBudgetView>

  killSwitch(): Promise<KillSwitch>
  /** On: refuses from now on, and stops everything until it is lifted. In the deployment's object: everywhere. */
  setKillSwitch(change: KillSwitchChange, actor: string): Promise<KillSwitch>
  /** The deployment has changed its switch. */
  hearDeployment(news: DeploymentSwitch): Promise<void>

  /** Doors of the deployment's object. Who asks is told of every change from then on. */
  admitOrganisation(organisationId: string): Promise<DeploymentSwitch>
  deploymentKillSwitch(): Promise<DeploymentKillSwitch>
}

/** Versions only grow, so that late news are known as such. */
export interface DeploymentSwitch {
  version: number
  on: boolean
  reason: string
}

export interface BudgetClaim {
  sessionId: string
  project: string
  /** Of the slice that is asked for, from 1. */
  number: number
  /** Of the slice before. */
  spent: Amounts
}

export type BudgetAnswer =
  | { granted: Amounts; warnings: { measure: string; used: number; limit: number }[] }
  | { granted: null; reason: string }

export interface SandboxClaim {
  sessionId: string
  generation: number
  project: string
  provider: ProviderName
}

export type Reservation =
  | { granted: true; lifetimeSeconds: number }
  /** `retryAt` null: only a person can change it, by a limit or a switch. */
  | { granted: false; reason: string; retryAt: number | null }

export interface SandboxEnd {
  outcome: 'stopped' | 'failed' | 'lost'
  reason: string
}

const doors: Record<Exclude<keyof OrganisationApi, keyof WarmPoolApi>, true> = {
  claimCreation: true,
  claimRun: true,
  releaseRun: true,
  endCreation: true,
  reserveSandbox: true,
  sandboxConnected: true,
  sandboxEnded: true,
  limits: true,
  setLimits: true,
  worstCase: true,
  takeBudget: true,
  returnBudget: true,
  budget: true,
  setBudget: true,
  killSwitch: true,
  setKillSwitch: true,
  hearDeployment: true,
  admitOrganisation: true,
  deploymentKillSwitch: true,
}
/** By name, for the hosts that must list them. */
export const organisationDoors = [
  ...Object.keys(doors),
  ...warmPoolDoors,
] as (keyof OrganisationApi)[]
