import type {
  DeploymentKillSwitch,
  KillSwitch,
  KillSwitchChange,
} from '../../../contract/kill-switch.ts'
import type {
  Amounts,
  Budget,
  CorrectedSharedBudget,
  SharedBudgetCorrect,
  SharedBudgetView,
} from '../../../contract/budget.ts'
import type { LimitsChange, LimitsView, WorstCase } from '../../../contract/limits.ts'
import type { ProviderName } from '../../../contract/sandbox.ts'
import type { DeadLettersResent, DeadLetterView } from '../../../contract/status.ts'
import type { WarmPoolView } from '../../../contract/warm-pool.ts'

/** Places for sandboxes, as sessions ask for them and report of them. */
export interface SandboxesApi {
  /**
   * A place for one sandbox, before each call to the provider that creates it. Repeatable: the same session and
   * generation holds one place, and is told how much of its lifetime is left. Once ended, it is not given again.
   * Everything that bounds sandboxes is checked here and nowhere else: limits, breaker, kill switches.
   */
  reserve(claim: SandboxClaim): Promise<Reservation>
  /** Its agent has called: the breaker of its provider is reset. */
  connected(sessionId: string, generation: number): Promise<void>
  /**
   * Frees the place and books the time: only once the provider has stopped it or does not know it. Repeatable; the
   * first outcome counts.
   */
  ended(sessionId: string, generation: number, end: SandboxEnd): Promise<void>
}

/** The bytes that sessions hold. */
export interface UploadsApi {
  /** All that the session would hold then, before it is stored. Refused: what it held before stays. Less is never refused. */
  hold(sessionId: string, bytes: number): Promise<{ refusal: string | null }>
}

/** What belongs to one session of all. */
export interface CreationsApi {
  /**
   * The session that stands for this Idempotency-Key: `freshSessionId` the first time, the same one ever after.
   * The same key with another body is refused.
   */
  claim(key: string, bodyHash: string, freshSessionId: string): Promise<string>
  /** An automation run belongs to one session: the first that claims its id. Claiming again is harmless. */
  claimRun(runId: string, sessionId: string): Promise<void>
  /** The session was not created after all. */
  releaseRun(runId: string, sessionId: string): Promise<void>
  /** The session is being deleted: its key must not bring it back, with tokens that are still valid. */
  end(sessionId: string): Promise<void>
}

/** How long an Idempotency-Key of a creation is remembered. */
export const keepCreationsMs = 24 * 60 * 60_000

/** Sandboxes, and what bounds them. `project` null: the whole organisation. */
export interface FirewallApi {
  limits(project: string | null): Promise<LimitsView>
  setLimits(project: string | null, change: LimitsChange, actor: string): Promise<LimitsView>
  worstCase(project: string | null): Promise<WorstCase>
  killSwitch(): Promise<KillSwitch>
  /** Why nothing may run; null: no switch is on. Asked before each model call. */
  killReason(): Promise<string | null>
  /** On: refuses from now on, and stops everything until it is lifted. In the deployment's object: everywhere. */
  setKillSwitch(change: KillSwitchChange, actor: string): Promise<KillSwitch>
}

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

export type Refusal = Extract<Reservation, { granted: false }>

export function organisationApiRefusal(why: string, retryAt: number | null): Refusal {
  return { granted: false, reason: `Cannot start a sandbox: ${why}`, retryAt }
}

export interface SandboxEnd {
  /** refused: it did not start by the fault of its user, or of the repository's host. */
  outcome: 'stopped' | 'failed' | 'lost' | 'refused'
  reason: string
}

/** The order to fence, save and stop a sandbox. */
export interface Halt {
  reason: string
  actor: 'kill-switch' | 'shutdown'
  /** The sandbox is stopped after this time, saved or not. */
  saveMs: number
}

/** Budgets that the sessions of an organisation or a project share. `project` null: the whole organisation. */
export interface BudgetsApi {
  /** What a session may use before it asks again. Repeatable by its number. */
  take(claim: BudgetClaim): Promise<BudgetAnswer>
  giveBack(sessionId: string, number: number, spent: Amounts): Promise<void>
  view(project: string | null): Promise<SharedBudgetView>
  /** Sessions that wait for it find out within seconds: they ask again. */
  set(project: string | null, limits: Budget, actor: string): Promise<SharedBudgetView>
  /** What was counted is put right, with a reason on record; the same key corrects once. */
  correct(
    sent: SharedBudgetCorrect,
    actor: string,
    key: string | null,
  ): Promise<CorrectedSharedBudget>
}

export interface BudgetClaim {
  sessionId: string
  project: string
  /** The number of the slice that is asked for, from 1. */
  number: number
  /** What was used of the slice before. */
  spent: Amounts
  /** What model calls that are open or wait can use: the slice should be as large, if there is so much. */
  reserved?: Pick<Amounts, 'tokens' | 'moneyMicros'>
}

export type BudgetAnswer =
  | { granted: Amounts; warnings: { measure: string; used: number; limit: number }[] }
  | { granted: null; reason: string }

/** The organisation's own rows on their way to libSQL: reservations and actions. */
export interface LettersApi {
  /** Rows that libSQL has refused. */
  list(page: {
    limit: number
    after: number | null
  }): Promise<{ items: DeadLetterView[]; next: number | null }>
  /** Null: all of them. */
  resend(seqs: number[] | null): Promise<DeadLettersResent>
}

/** What an organisation and the deployment's object say to each other. */
export interface DeploymentApi {
  /** The deployment has changed its switch. */
  hear(news: DeploymentSwitch): Promise<void>
  /** In the deployment's object. Who asks is told of every change from then on. */
  admit(organisationId: string): Promise<DeploymentSwitch>
  /** In the deployment's object. */
  killSwitch(): Promise<DeploymentKillSwitch>
  /**
   * The stack is about to end: no place is given for a minute, and every sandbox is saved and put to sleep. Says how
   * many are still there; repeated until none is. In the deployment's object: everywhere.
   */
  putToSleep(): Promise<number>
}

/** Versions only grow, so that late news are known as such. */
export interface DeploymentSwitch {
  version: number
  on: boolean
  reason: string
}

/** Sessions that are booted before anybody asks for them. */
export interface PoolsApi {
  /** A session that is ready for this creation, or null. The same creation gets the same answer, each session is given once. */
  claim(claim: WarmClaim): Promise<string | null>
  /** The creation could not take it. */
  giveBack(end: WarmEnd): Promise<void>
  /** A warm session says how it is. */
  changed(sessionId: string, state: WarmState, reason: string | null): Promise<void>
  /** The configuration may want another pool than it has. */
  watch(configurationId: string): Promise<void>
  view(configurationId: string): Promise<WarmPoolView>
}

export interface WarmClaim {
  configurationId: string
  /** The version of everything that is fixed at boot: a session of another version is not given. */
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
