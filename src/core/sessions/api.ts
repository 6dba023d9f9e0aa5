import type { Artifact } from '../../contract/artifact.ts'
import type { Ask, AskAnswer } from '../../contract/ask.ts'
import type { EnvRequest, EnvSubmitted, SandboxEnv } from '../../contract/env.ts'
import type { SessionEvent } from '../../contract/events.ts'
import type { Manifest } from '../../contract/manifest.ts'
import type { Session, SessionCreate, SessionDiff } from '../../contract/session.ts'
import type { ToolCall } from '../../contract/tool.ts'
import type { EnvFile } from '../../contract/tools/save-env-files.ts'
import type { PromptCreate, Turn } from '../../contract/turn.ts'
import type { SealedValue } from './secrets.ts'
import type { ModelUsage } from './usage.ts'

/** Who asks: checked by the session against its own record, so that a wrong caller sees 404. */
export interface Caller {
  organisationId: string
  keyId: string
}

/** The sandbox's side: claims of a verified token. */
export interface SandboxCaller {
  organisationId: string
  generation: number
}

/**
 * The doors of one session. The Durable Object and the Deno host offer exactly this; refusals are thrown as AppError.
 * Every method may be called again with the same arguments.
 */
export interface SessionApi {
  create(input: CreateSession): Promise<Session>
  view(caller: Caller): Promise<Session>
  close(caller: Caller, reason: string): Promise<Session>
  erase(caller: Caller): Promise<void>
  /** Generation + 1: the old sandbox is fenced first, then stopped. */
  replaceSandbox(caller: Caller, reason: string): Promise<Session>

  prompt(caller: Caller, input: PromptCreate, idempotencyKey: string | null): Promise<Turn>
  turn(caller: Caller, turnId: string): Promise<Turn>
  /** Answers when the turn has ended, or after `waitMs` with the turn as it is. */
  waitForTurn(caller: Caller, turnId: string, waitMs: number): Promise<Turn>
  turns(caller: Caller, page: Page): Promise<{ items: Turn[]; next: number | null }>
  /** Aborts the running turn, and drops the queued ones. */
  abort(caller: Caller): Promise<Session>

  events(caller: Caller, after: number, limit: number): Promise<SessionEvent[]>
  calls(caller: Caller, page: Page): Promise<{ items: ToolCall[]; next: number | null }>
  asks(caller: Caller): Promise<Ask[]>
  answerAsk(caller: Caller, askId: string, answer: AskAnswer): Promise<Ask>
  diff(caller: Caller): Promise<SessionDiff>
  artifacts(caller: Caller): Promise<Artifact[]>
  artifact(caller: Caller, artifactId: string): Promise<Artifact>
  envRequests(caller: Caller): Promise<EnvRequest[]>
  /** Values arrive sealed. Says whether the sandbox has them already. */
  submitEnv(caller: Caller, values: SealedValue[]): Promise<EnvSubmitted['sandbox']>

  /** The sandbox's doors. Each refuses an old generation and another organisation. */
  authoriseSandbox(sandbox: SandboxCaller): Promise<void>
  /** Refuses content that holds a secret: evidence is for others to read. */
  admitUpload(sandbox: SandboxCaller, bytes: Uint8Array): Promise<void>
  manifest(sandbox: SandboxCaller): Promise<Manifest>
  callTool(sandbox: SandboxCaller, call: ToolCallInput): Promise<CallAnswer>
  sandboxEnv(sandbox: SandboxCaller): Promise<SandboxEnv>
  addModelUsage(sandbox: SandboxCaller, usage: ModelUsage): Promise<void>
}

export interface CreateSession {
  sessionId: string
  organisationId: string
  keyId: string
  input: SessionCreate
  /** As it is at this moment: later changes are for later sessions. */
  configuration?: SessionConfiguration | null
  /** The organisation's and the configuration's, sealed. */
  secrets?: SealedValue[]
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

export interface Page {
  limit: number
  /** Rows after this one; null: from the start. */
  after: number | null
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
