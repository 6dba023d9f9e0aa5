import type { Artifact } from '../../contract/artifact.ts'
import type { Budget, BudgetView } from '../../contract/budget.ts'
import type { EnvRequest, EnvSubmitted } from '../../contract/env.ts'
import type { SessionEvent } from '../../contract/events.ts'
import type { Manifest, SandboxEnv } from '../../contract/manifest.ts'
import type { Policy } from '../../contract/policy.ts'
import type { Session, SessionCreate, SessionDiff } from '../../contract/session.ts'
import type { ToolCall } from '../../contract/tool.ts'
import type { EnvFile } from '../../contract/tools/save-env-files.ts'
import type { PromptCreate, Turn } from '../../contract/turn.ts'
import {
  type ApprovalApi,
  approvalDoors,
  type OperationApi,
  operationDoors,
  type RunApi,
  runDoors,
} from '../runs/api.ts'
import type { Caller, Page, SandboxCaller } from './caller.ts'
import type { SealedValue } from './secrets.ts'
import type { ModelUsage } from './usage.ts'

/** The doors that are about turns. */
export interface TurnApi {
  prompt(caller: Caller, input: PromptCreate, idempotencyKey: string | null): Promise<Turn>
  turn(caller: Caller, turnId: string): Promise<Turn>
  /** Answers when the turn has ended, or after `waitMs` with the turn as it is. */
  waitForTurn(caller: Caller, turnId: string, waitMs: number): Promise<Turn>
  turns(caller: Caller, page: Page): Promise<{ items: Turn[]; next: number | null }>
}
const turnNames: Record<keyof TurnApi, true> = {
  prompt: true,
  turn: true,
  waitForTurn: true,
  turns: true,
}
export const turnDoors = Object.keys(turnNames) as (keyof TurnApi)[]

/** The doors that are about its budget. */
export interface BudgetApi {
  budget(caller: Caller): Promise<BudgetView>
  /** Replaces it. What waits for a budget is decided anew. */
  setBudget(caller: Caller, limits: Budget): Promise<BudgetView>
}
const budgetNames: Record<keyof BudgetApi, true> = { budget: true, setBudget: true }
export const budgetDoors = Object.keys(budgetNames) as (keyof BudgetApi)[]

/** The doors that are about its policy. */
export interface PolicyApi {
  policy(caller: Caller): Promise<PolicyName>
  /** Null: the built-in one. */
  setPolicy(caller: Caller, policy: Policy | null): Promise<PolicyName>
}
export interface PolicyName {
  name: string
  version: number
}
const policyNames: Record<keyof PolicyApi, true> = { policy: true, setPolicy: true }
export const policyDoors = Object.keys(policyNames) as (keyof PolicyApi)[]

/** The sandbox's doors. Each refuses an old generation and another organisation. */
export interface SandboxApi {
  authoriseSandbox(sandbox: SandboxCaller): Promise<void>
  /** Refuses content that holds a secret: evidence is for others to read. */
  admitUpload(sandbox: SandboxCaller, bytes: Uint8Array): Promise<void>
  manifest(sandbox: SandboxCaller): Promise<Manifest>
  callTool(sandbox: SandboxCaller, call: ToolCallInput): Promise<CallAnswer>
  sandboxEnv(sandbox: SandboxCaller): Promise<SandboxEnv>
  addModelUsage(sandbox: SandboxCaller, usage: ModelUsage): Promise<void>
}
const sandboxNames: Record<keyof SandboxApi, true> = {
  authoriseSandbox: true,
  admitUpload: true,
  manifest: true,
  callTool: true,
  sandboxEnv: true,
  addModelUsage: true,
}
export const sandboxDoors = Object.keys(sandboxNames) as (keyof SandboxApi)[]

/** The doors of a session that is or was warm: booted before anybody asked for it. */
export interface WarmApi {
  /**
   * Becomes the session of this creation, whose id is its claim: asked again with the same one, it is the same session.
   * Null: it cannot be that session, or not any more, and ends.
   */
  adopt(create: CreateSession): Promise<Session | null>
  /** The organisation's own. Ends it unless somebody has got it; true: it is gone. */
  dropWarm(caller: Pick<Caller, 'organisationId'>, reason: string): Promise<boolean>
}
const warmNames: Record<keyof WarmApi, true> = { adopt: true, dropWarm: true }
export const warmDoors = Object.keys(warmNames) as (keyof WarmApi)[]

type Parts = SandboxApi &
  WarmApi &
  TurnApi &
  BudgetApi &
  PolicyApi &
  RunApi &
  ApprovalApi &
  OperationApi

/**
 * The doors of one session. The Durable Object and the Deno host offer exactly this; refusals are thrown as AppError.
 * Every method may be called again with the same arguments.
 */
export interface SessionApi extends Parts {
  create(input: CreateSession): Promise<Session>
  view(caller: Caller): Promise<Session>
  close(caller: Caller, reason: string): Promise<Session>
  erase(caller: Caller): Promise<void>
  /** Generation + 1: the old sandbox is fenced first, then stopped. */
  replaceSandbox(caller: Caller, reason: string): Promise<Session>
  /** Starts again what is failed, lost or asleep. */
  retrySandbox(caller: Caller, reason: string): Promise<Session>
  /** The organisation's own: a kill switch is on. An old generation is left alone. */
  haltSandbox(sandbox: SandboxCaller, reason: string): Promise<void>
  /** Likewise: its provider does not seem to have it any more. */
  checkSandbox(sandbox: SandboxCaller): Promise<void>

  /** Aborts the running turn, and drops the queued ones. */
  abort(caller: Caller): Promise<Session>

  events(caller: Caller, after: number, limit: number): Promise<SessionEvent[]>
  calls(caller: Caller, page: Page): Promise<{ items: ToolCall[]; next: number | null }>
  diff(caller: Caller): Promise<SessionDiff>
  artifacts(caller: Caller): Promise<Artifact[]>
  artifact(caller: Caller, artifactId: string): Promise<Artifact>
  envRequests(caller: Caller): Promise<EnvRequest[]>
  /** Values arrive sealed. Says whether the sandbox has them already. */
  submitEnv(caller: Caller, values: SealedValue[]): Promise<EnvSubmitted['sandbox']>
}

const doors: Record<Exclude<keyof SessionApi, keyof Parts>, true> = {
  create: true,
  view: true,
  close: true,
  erase: true,
  replaceSandbox: true,
  retrySandbox: true,
  haltSandbox: true,
  checkSandbox: true,
  abort: true,
  events: true,
  calls: true,
  diff: true,
  artifacts: true,
  artifact: true,
  envRequests: true,
  submitEnv: true,
}
/** By name, for the hosts that must list them. */
export const sessionDoors = [
  ...Object.keys(doors),
  ...sandboxDoors,
  ...warmDoors,
  ...turnDoors,
  ...budgetDoors,
  ...policyDoors,
  ...runDoors,
  ...approvalDoors,
  ...operationDoors,
] as (keyof SessionApi)[]

export interface CreateSession {
  sessionId: string
  organisationId: string
  keyId: string
  input: SessionCreate
  /** As it is at this moment: later changes are for later sessions. */
  configuration?: SessionConfiguration | null
  /** The organisation's and the configuration's, sealed. */
  secrets?: SealedValue[]
  /** Null: the built-in one. Pinned: a later version is for later sessions. */
  policy?: Policy | null
  /** For a session to come: it is booted, and waits to be claimed. */
  warm?: boolean
}

export interface SessionConfiguration {
  id: string
  project: string
  name: string
  /** The token is sealed. */
  repository: { url: string; ref: string | null; token: string | null } | null
  defaultModel: string | null
  trustProjectConfig: boolean
  snapshotId: string | null
  envFiles: EnvFile[]
}

export interface ToolCallInput {
  /** Canonical: the alias is already folded. */
  tool: string
  toolCallId: string
  args: Record<string, unknown>
}

export interface CallAnswer {
  /** The exact bytes of `{success, result, data?}`: equal for every caller with this id. */
  body: string
  replayed: boolean
}
