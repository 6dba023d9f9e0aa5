import type { TokenAuthority } from '../../adapters/tokens.ts'
import type { SessionIds } from '../../adapters/web-crypto.ts'
import type { SessionEvent } from '../../contract/events.ts'
import type { ToolDefinition } from '../../contract/tool.ts'
import type { EvalRunApi } from '../../core/eval-run/eval-run.ts'
import type { OrganisationApi } from '../../core/organisation/organisation.ts'
import type { WarmSource } from '../../core/organisation/record/ports.ts'
import type {
  Blobs,
  Clock,
  Crypto,
  Db,
  LedgerStatus,
  Log,
  WebhookSender,
} from '../../core/ports.ts'
import type { Providers } from '../../core/registry/providers.ts'
import type { SessionApi } from '../../core/session/session.ts'
import type { Caller, SandboxCaller } from '../../core/session/record/caller.ts'
import type { Config } from '../../config.ts'
import type { AddressOf } from './address.ts'

/** What a host gives to the app. Made once per isolate or process; nothing in it belongs to one request. */
export interface AppDeps {
  session(id: string): SessionApi
  organisation(id: string): OrganisationApi
  /** Null: the deployment has no objects for eval runs. */
  evalRun: ((id: string) => EvalRunApi) | null
  /** Accepts the agent's WebSocket, once `authorise` has let it in. With an expired token the session sends a new one and closes. */
  openLink(
    sessionId: string,
    caller: SandboxCaller & { expiredAt: number | null },
    request: Request,
  ): Promise<Response>
  /** What is committed from now on. It may repeat events and skip some: the stream's route puts that right. */
  watch(sessionId: string, caller: Caller): Promise<ReadableStream<SessionEvent>>
  /** Of one organisation; null: of all, for the operator. */
  ledgerStatus(organisationId: string | null): Promise<LedgerStatus>
  /** Whose connection a request came by: see address.ts. */
  addressOf: AddressOf
  /** A new one for each event: see adapters/libsql.ts. */
  db(): Db
  blobs(): Blobs
  crypto: Crypto
  ids: SessionIds
  tokens: TokenAuthority
  webhooks: WebhookSender
  providers: Providers
  warm: Pick<WarmSource, 'versionOf'>
  /** The tools that may be called back. */
  tools: readonly ToolDefinition[]
  config: Pick<
    Config,
    | 'publicUrl'
    | 'defaultSandbox'
    | 'rateLimitPerMinute'
    | 'models'
    | 'extraModels'
    | 'operatorKey'
    | 'localRepositories'
    | 'modelExtras'
    | 'proofMode'
    | 'privateHosts'
  >
  host: 'workerd' | 'deno'
  log: Log
  now: Clock
  /** Lets work go on after the answer. */
  defer(work: Promise<unknown>): void
}
