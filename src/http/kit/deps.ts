import type { TokenAuthority } from '../../adapters/tokens.ts'
import type { SessionIds } from '../../adapters/web-crypto.ts'
import type { SessionEvent } from '../../contract/events.ts'
import type { ToolDefinition } from '../../contract/tool.ts'
import type { OrganisationApi } from '../../core/organisation/record/api.ts'
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
import type { SessionApi } from '../../core/session/api.ts'
import type { Caller, SandboxCaller } from '../../core/session/record/caller.ts'
import type { Config } from '../../config.ts'

/** What a host gives to the app. Made once per isolate or process; nothing in it belongs to one request. */
export interface AppDeps {
  session(id: string): SessionApi
  organisation(id: string): OrganisationApi
  /** Accepts the agent's WebSocket. With an expired token the session sends a new one and closes. */
  openLink(
    sessionId: string,
    caller: SandboxCaller & { expired: boolean },
    request: Request,
  ): Promise<Response>
  /** What is committed from now on. It may repeat events and skip some: the stream's route puts that right. */
  watch(sessionId: string, caller: Caller): Promise<ReadableStream<SessionEvent>>
  /** Dead letters are those of the organisation. */
  ledgerStatus(organisationId: string): Promise<LedgerStatus>
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
    | 'modelExtras'
    | 'operatorKey'
  >
  host: 'workerd' | 'deno'
  log: Log
  now: Clock
  /** Lets work go on after the answer. */
  defer(work: Promise<unknown>): void
}
