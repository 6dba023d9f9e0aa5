import type { EnclosureMode, UnwalledApprovals } from '../../../contract/enclosure.ts'
import type { ProofMode } from '../../../contract/evidence.ts'
import type { ProviderName } from '../../../contract/session.ts'
import type { SessionEvent } from '../../../contract/events.ts'
import type { Firewall } from '../../../contract/limits.ts'
import type { Model } from '../../../contract/models.ts'
import type { ToolDefinition } from '../../../contract/tool.ts'
import type { CrashPoint } from '../../actor/crash-points.ts'
import type { OrganisationApi } from '../../organisation/organisation.ts'
import type {
  Blobs,
  Clock,
  Crypto,
  Db,
  Ledger,
  Log,
  SandboxProvider,
  Sql,
  Tokens,
  WebhookSender,
} from '../../ports.ts'

/** What the shell around a session does for it: sockets, the one alarm, time. */
export interface SessionHost {
  arm(at: number | null): void
  /** False if no agent is connected. */
  sendToAgent(text: string): boolean
  closeAgent(code: number, reason: string): void
  /** The connected agent has said hello: from now on it counts as connected. */
  agentGreeted(): void
  agentConnected(): boolean
  /** When it last gave a sign of life; its pings count, and wake nobody. Null: no socket is open. */
  agentHeardAt(): number | null
  /** Whether anybody watches: then every event is handed to `publish` once, in order. */
  watched(): boolean
  publish(events: SessionEvent[]): void
  sleep(ms: number): Promise<void>
  /** Until whatever has reached the object by now is delivered. Only where all writes of one turn are one commit. */
  gather?: () => Promise<void>
  /** Work that nobody waits for. */
  defer(work: Promise<void>): void
  /** Deletes the whole database and the alarm. */
  erase(): Promise<void>
}

export interface SessionPorts {
  sql: Sql
  host: SessionHost
  now: Clock
  crypto: Crypto
  tokens: Tokens
  webhooks: WebhookSender
  /** Made per use: a libSQL client never outlives its event. */
  db(): Db
  blobs(): Blobs
  ledger(sessionId: string): Ledger
  /** With the organisation's own credentials, if it has some. Null: not configured. */
  provider(name: ProviderName, organisationId: string): Promise<SandboxProvider | null>
  organisation(id: string): OrganisationApi
  /** What agents may call here. How each is carried out is known to calls alone. */
  tools: readonly { definition: ToolDefinition }[]
  config: SessionConfig
  log: Log
  crash?: CrashPoint | undefined
}

export interface SessionConfig {
  publicUrl: string
  defaultSandbox: ProviderName
  defaultModel: string
  /** What this deployment serves. */
  models: readonly Model[]
  enclosure: EnclosureMode
  unwalledApprovals: UnwalledApprovals
  privateHosts: readonly string[]
  /** How far evidence of changes is applied. */
  evidence: { mode: ProofMode }
  retentionMs: number
  /** What one session may ask of the model's vendor. */
  modelLimits: Pick<Firewall, 'modelCallsPerMinute' | 'concurrentModelCalls'>
}
