import { AppError } from '../../../contract/error.ts'
import {
  defaultIdleTimeoutSeconds,
  type Replacement,
  type SandboxLimits,
} from '../../../contract/sandbox.ts'
import type {
  AgentConfig,
  GateRules,
  ProviderName,
  SandboxState,
  SessionCreate,
} from '../../../contract/session.ts'
import { addToOutbox } from '../../actor/outbox.ts'
import type { Sql } from '../../ports.ts'
import type { ClientType, Mode } from '../../../contract/mode.ts'
import type { RegistryScope } from '../../../contract/registry-scope.ts'
import type { Equipment } from '../../../contract/tool.ts'
import type { ReasoningEffort } from '../../../contract/models.ts'
import type { SystemPromptMode } from '../../../contract/prompts.ts'
import type { EnvFile } from '../../../contract/tools/save-env-files.ts'
import type { Policy } from '../../../contract/policy.ts'
import type { Pin } from '../pins/pins.ts'
import type { AttemptTerms } from './attempt-terms.ts'
import type { Caller } from './caller.ts'
import type { SealedValue } from './secrets.ts'

export interface SessionRecord {
  id: string
  organisationId: string
  /** That created it. */
  keyId: string
  /** Whose key that was. Null: of a release that had no members, or not claimed yet. */
  memberId: string | null
  project: string
  title: string
  /** warm: booted, for a session to come. erased: being deleted; to callers it is already gone. */
  status: 'warm' | 'open' | 'closed' | 'erased'
  provider: ProviderName
  sandboxState: SandboxState
  sandboxReason: string | null
  generation: number
  repositoryUrl: string | null
  repositoryRef: string | null
  /** Sealed. */
  repositoryToken: string | null
  /** Canonical. */
  model: string
  gate: GateRules
  trustProjectConfig: boolean
  markerNonce: string
  configurationId: string | null
  mode: Mode
  clientType: ClientType
  agentConfig: AgentConfig
  /** What it has beside the contract; decides which of Gantry's own tools it gets. */
  equipment: Equipment[]
  /** Of the memories that it may read and add to. */
  memoryScopes: RegistryScope[]
  /** Of the abilities that its model may run. Null: all that there are. */
  abilityNames: string[] | null
  reasoningEffort: ReasoningEffort | null
  systemPrompt: string | null
  systemPromptMode: SystemPromptMode
  snapshotId: string | null
  envFiles: EnvFile[]
  image: string | null
  limits: SandboxLimits
  /** null: it is never put to sleep. */
  idleTimeoutSeconds: number | null
  replacement: Replacement
  /** The creation that it was claimed for, if it has been warm. */
  claimedFor: string | null
  createdAt: number
  closedAt: number | null
}

/** It may have a sandbox. */
export const isLive = ({ status }: Pick<SessionRecord, 'status'>): boolean =>
  status === 'open' || status === 'warm'

/** States in which an open session has no sandbox that may speak for it. */
const over: readonly SandboxState[] = ['lost', 'replacing', 'stopping', 'stopped', 'failed']
export const isOver = (state: SandboxState): boolean => over.includes(state)

const columns = `id, organisation_id as organisationId, key_id as keyId, member_id as memberId, project, title, status, provider, sandbox_state as sandboxState,
  sandbox_reason as sandboxReason, generation, repository_url as repositoryUrl, repository_ref as repositoryRef,
  repository_token as repositoryToken, model, gate, trust_project_config as trustProjectConfig, marker_nonce as markerNonce,
  configuration_id as configurationId, mode, client_type as clientType, reasoning_effort as reasoningEffort,
  system_prompt as systemPrompt, system_prompt_mode as systemPromptMode, snapshot_id as snapshotId, env_files as envFiles,
  image, limits, idle_timeout_seconds as idleTimeoutSeconds, replacement, claimed_for as claimedFor, agent_config as agentConfig,
  equipment, memory_scopes as memoryScopes, ability_names as abilityNames, created_at as createdAt, closed_at as closedAt`

type Row = Omit<
  SessionRecord,
  | 'gate'
  | 'trustProjectConfig'
  | 'envFiles'
  | 'limits'
  | 'agentConfig'
  | 'equipment'
  | 'memoryScopes'
  | 'abilityNames'
> & {
  gate: string
  agentConfig: string
  equipment: string
  memoryScopes: string
  abilityNames: string | null
  limits: string
  trustProjectConfig: number
  envFiles: string
}

export function loadSession(sql: Sql): SessionRecord {
  const row = sql.all<Row>(`select ${columns} from session`)[0]
  if (!row) throw new AppError('not_found', 'No such session')
  return {
    ...row,
    gate: JSON.parse(row.gate) as GateRules,
    trustProjectConfig: row.trustProjectConfig === 1,
    envFiles: JSON.parse(row.envFiles) as EnvFile[],
    limits: JSON.parse(row.limits) as SandboxLimits,
    agentConfig: JSON.parse(row.agentConfig) as AgentConfig,
    equipment: JSON.parse(row.equipment) as Equipment[],
    memoryScopes: JSON.parse(row.memoryScopes) as RegistryScope[],
    abilityNames: row.abilityNames === null ? null : (JSON.parse(row.abilityNames) as string[]),
  }
}

export interface CreateSession {
  sessionId: string
  organisationId: string
  keyId: string
  /** Null: nobody's yet. */
  memberId?: string | null
  input: SessionCreate
  /** As it is at this moment: later changes are for later sessions. */
  configuration?: SessionConfiguration | null
  /** The organisation's and the configuration's, sealed. */
  secrets?: SealedValue[]
  /** Null: the built-in one. Pinned: a later version is for later sessions. */
  policy?: Policy | null
  /** Revisions of the registries' rows that it begins with. */
  pins?: readonly Pin[]
  /** Beside what every session has: what it names itself, or its agent does. */
  equipment?: readonly Equipment[]
  memoryScopes?: readonly RegistryScope[]
  abilityNames?: readonly string[] | null
  /** For a session to come: it is booted, and waits to be claimed. */
  warm?: boolean
  /** Of an eval run's attempt. */
  attempt?: AttemptTerms | null
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

/** What creation has worked out from input, configuration and deployment. */
export interface NewSession {
  provider: ProviderName
  mode: Mode
  model: string
  /** Sealed. */
  repository: { url: string; ref: string | null; token: string | null } | null
  markerNonce: string
  /** Without known secrets, like the next. */
  title: string
  systemPrompt: string | null
  agentConfig: AgentConfig
  pins: readonly Pin[]
}

export function insertSession(
  sql: Sql,
  now: number,
  create: CreateSession,
  given: NewSession,
): void {
  const { input, configuration } = create
  const project = configuration?.project ?? input.project
  sql.run(
    `insert into session (id, organisation_id, key_id, project, title, status, provider, sandbox_state, generation,
       repository_url, repository_ref, repository_token, model, gate, trust_project_config, marker_nonce, created_at,
       configuration_id, mode, client_type, reasoning_effort, system_prompt, system_prompt_mode, snapshot_id, env_files,
       image, limits, idle_timeout_seconds, replacement, agent_config, equipment, memory_scopes, member_id, ability_names)
     values (?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    create.sessionId,
    create.organisationId,
    create.keyId,
    project,
    given.title,
    create.warm ? 'warm' : 'open',
    given.provider,
    given.provider === 'none' ? 'none' : 'requested',
    given.repository?.url ?? null,
    given.repository?.ref ?? null,
    given.repository?.token ?? null,
    given.model,
    JSON.stringify(input.gate),
    input.trustProjectConfig || configuration?.trustProjectConfig ? 1 : 0,
    given.markerNonce,
    now,
    configuration?.id ?? null,
    given.mode,
    input.clientType,
    input.reasoningEffort ?? null,
    given.systemPrompt,
    input.system_prompt_mode,
    configuration?.snapshotId ?? null,
    JSON.stringify(configuration?.envFiles ?? []),
    input.image ?? null,
    JSON.stringify(input.limits ?? {}),
    idleSecondsOf(input),
    input.replacement ?? 'auto',
    JSON.stringify(given.agentConfig),
    JSON.stringify(equipmentOf(create)),
    JSON.stringify(create.memoryScopes ?? []),
    create.memberId ?? null,
    create.abilityNames === null ? null : JSON.stringify(create.abilityNames ?? []),
  )
  projectSession(sql, now)
}

/** Each once, in one order. */
export const equipmentOf = ({ equipment = [] }: CreateSession): Equipment[] =>
  [...new Set(equipment)].toSorted()

export const idleSecondsOf = ({ idleTimeoutSeconds }: SessionCreate): number | null =>
  idleTimeoutSeconds === undefined ? defaultIdleTimeoutSeconds : idleTimeoutSeconds

export function projectSession(sql: Sql, now: number): void {
  const session = loadSession(sql)
  // It is no longer in the list, and what still happens to it does not bring it back.
  if (session.status === 'erased') return
  addToOutbox(sql, now, 'session', {
    project: session.project,
    memberId: session.memberId,
    title: session.title,
    status: session.status,
    provider: session.provider,
    sandboxState: session.sandboxState,
    generation: session.generation,
    createdAt: session.createdAt,
    closedAt: session.closedAt,
  })
}

/**
 * Another member speaks to the model: from then on its tools do not reach what its creator keeps for itself, neither to
 * tell nor to change it. For good, since what was said stays in the conversation.
 */
export function recordPersonalMemoryWithdrawn(
  sql: Sql,
  { memoryScopes, memberId }: SessionRecord,
  caller: Pick<Caller, 'memberId'>,
): void {
  if (memberId === caller.memberId || !memoryScopes.includes('personal')) return
  const left = memoryScopes.filter((scope) => scope !== 'personal')
  sql.run('update session set memory_scopes = ?', JSON.stringify(left))
}
