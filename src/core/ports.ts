import type { Envelope, PublicKey } from '../contract/export.ts'
import type { DeadLetter } from '../contract/status.ts'
import type { Layout } from '../contract/manifest.ts'

/** One small database with one writer. Synchronous, so that a transaction cannot be interleaved. */
export interface Sql {
  run(statement: string, ...values: SqlValue[]): void
  all<T extends object>(statement: string, ...values: SqlValue[]): T[]
  /** Rolls back if `work` throws. May be nested. */
  transaction<T>(work: () => T): T
}
export type SqlValue = string | number | null

/** The shared database, over the network. Every statement may be repeated. */
export interface Db {
  all<T extends object>(statement: string, ...values: DbValue[]): Promise<T[]>
  /** All or nothing. */
  batch(statements: DbStatement[]): Promise<void>
}
export type DbValue = string | number | null | Uint8Array
export interface DbStatement {
  sql: string
  values: DbValue[]
}

/** Content by hash, separated by organisation. Putting the same bytes twice stores them once. */
export interface Blobs {
  /** Afterwards the session holds it, whoever has stored it: another's end does not delete it. */
  put(holder: BlobHolder, sha256: string, bytes: Uint8Array): Promise<void>
  /** The same of many, by hash: small ones share their requests. */
  putAll(holder: BlobHolder, blobs: ReadonlyMap<string, Uint8Array>): Promise<void>
  /** null: unknown. */
  get(organisationId: string, sha256: string): Promise<Uint8Array | null>
  /** Which of these are stored, with their sizes. The session holds them from then on. */
  hold(holder: BlobHolder, sha256s: string[]): Promise<Map<string, number>>
}
export interface BlobHolder {
  organisationId: string
  sessionId: string
}

export interface SandboxSpec {
  sessionId: string
  organisationId: string
  generation: number
  gatewayUrl: string
  token: string
  repository: { url: string; ref: string | null; token: string | null } | null
  /** Start from its files, instead of an empty repository or a clone. Another organisation's is not found. */
  snapshotId: string | null
  /** The provider's word for what it boots: an image, a template. Null: its default. */
  image: string | null
  limits: SandboxLimits
}
/** Held where the provider can; null: its own default. */
export interface SandboxLimits {
  memoryMb: number | null
  processes: number | null
  /** The provider ends it by itself after this time, unless it is extended. */
  lifetimeSeconds: number
}
export interface SandboxInfo {
  sessionId: string
  generation: number
  /** queued: waiting for a place to boot; running: its agent's process is alive. */
  state: 'queued' | 'running' | 'exited'
  reason: string | null
  startedAt: number
  /** Whose fault its end was, if not the provider's. */
  fault?: SandboxFault | null
}
/**
 * user: what the session asks for is wrong (URL, ref, token, image), and no other try will change that. repository: the
 * host of the repository does not give it now.
 */
export type SandboxFault = 'user' | 'repository'
export interface SandboxProvider {
  layout(sessionId: string, generation: number): Layout
  /**
   * Repeatable: the same session and generation is never created twice. Refuses as unprocessable what is wrong with the
   * order itself, by its user's fault; any other failure is the provider's.
   */
  create(spec: SandboxSpec): Promise<SandboxInfo>
  /** null: a true not-found. Throws if the provider cannot be asked. */
  get(sessionId: string, generation: number): Promise<SandboxInfo | null>
  /** Everything that carries this organisation's label, however it came to be. */
  list(organisationId: string): Promise<SandboxInfo[]>
  /** It lives for `seconds` from now. Not found is a refusal. */
  extend(sessionId: string, generation: number, seconds: number): Promise<void>
  /** Repeatable; stopping what is not there is success. */
  stop(sessionId: string, generation: number): Promise<void>
  /** Its processes stand still from now on, until it is stopped: a snapshot of it is of this moment. Absent: it cannot. */
  freeze?(sessionId: string, generation: number): Promise<void>
  /** What works and what to do about what does not, without starting anything that costs. */
  check(): Promise<ProviderCheck[]>
  /**
   * Repeatable: one id is taken once. While it is taken the next request joins; once taken it is answered even if its
   * sandbox is gone. Refuses as unprocessable, naming file and secret, if one of the values is found in the copy.
   * Of a sandbox that has ended it is what its files are like, where the provider still has them; else it is refused.
   */
  snapshot(input: SnapshotInput): Promise<SnapshotInfo>
  /** Repeatable; deleting what is not there is success. */
  deleteSnapshot(organisationId: string, snapshotId: string): Promise<void>
}
export interface ProviderCheck {
  name: string
  ok: boolean
  message: string
  /** What to do; null if there is nothing to do. */
  hint: string | null
}
export interface SnapshotInput {
  snapshotId: string
  organisationId: string
  sessionId: string
  generation: number
  secrets: readonly { name: string; value: string }[]
  /** Files that were generated with values in them, relative to the workspace: they are left out. */
  generatedFiles?: readonly string[]
}
export interface SnapshotInfo {
  snapshotId: string
  bytes: number
}

/** Digests and seals. Kept behind a port because core has no platform names. */
export interface Crypto {
  sha256(data: string | Uint8Array): Promise<string>
  /** `length` characters of the id alphabet. */
  random(length: number): string
  /** AES-GCM under the deployment's key; the text names the key's id. */
  seal(text: string): Promise<string>
  unseal(sealed: string): Promise<string>
  /** Whether it is under the key that seals today; what is not stops opening once its key is dropped. */
  isCurrent(sealed: string): boolean
  /** For what only the deployment itself verifies; the text names the key's id. */
  sign(text: string): string
  isSigned(text: string, signature: string): boolean
  /** For strangers: Ed25519, by a key that is published. Null: the deployment has none. */
  attest(statement: string): Promise<Envelope | null>
  publicKeys(): Promise<PublicKey[]>
}

/** Posts to addresses that callers chose: reaches no private address, follows no redirect, reads no answer. */
export interface WebhookSender {
  /** Why this address may not be used; null if it may. */
  refusal(url: string): string | null
  /** Never throws. What it says of a failure contains no part of the address. */
  post(input: WebhookPost): Promise<WebhookAnswer>
}
export interface WebhookPost {
  url: string
  headers: Record<string, string>
  body: string
  timeoutMs: number
}
/** status null: nobody answered. */
export type WebhookAnswer = { status: number } | { status: null; error: string }

export interface Tokens {
  mint(claims: { sessionId: string; organisationId: string; generation: number }): Promise<{
    token: string
    expiresAt: number
  }>
}

/** A row on its way from one session to libSQL. */
export interface OutboxRow {
  seq: number
  kind: string
  payload: string
  createdAt: number
}
export interface LedgerAppend {
  sessionId: string
  organisationId: string
  /** The sequence that the session believes libSQL to have. */
  after: number
  rows: OutboxRow[]
}
export interface Ledger {
  /** Throws if the rows cannot be written yet: they are sent again. */
  append(input: LedgerAppend): Promise<LedgerAnswer>
}
export interface LedgerAnswer {
  /** The sequence that libSQL now has for the session: lower than `after` if libSQL has lost rows. */
  stored: number
  /** Rows of this session that libSQL has refused, now or before, and does not have yet. */
  refused: RefusedRow[]
}
export interface RefusedRow {
  seq: number
  kind: string
  error: string
  at: number
}
export interface LedgerStatus {
  pendingSessions: number
  oldestAt: number | null
  /** Why they wait. */
  reason: string | null
  /** The newest. */
  deadLetters: DeadLetter[]
  deadLetterCount: number
  /** Recorded by a release that did not note whose they are. */
  unowned: DeadLetter[]
}

export const logLevels = ['debug', 'info', 'warn', 'error'] as const
export type LogLevel = (typeof logLevels)[number]
export type LogFields = Record<string, string | number | boolean | null>
export type Log = (level: LogLevel, message: string, fields: LogFields) => void

export type Clock = () => number
