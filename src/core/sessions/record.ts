import { AppError } from '../../contract/error.ts'
import type { OrganisationId, SessionId, TurnId } from '../../contract/ids.ts'
import type { GateRules, ProviderName, SandboxState, Session } from '../../contract/session.ts'
import { countActiveCalls } from '../gateway/calls.ts'
import { addToOutbox, outboxLag } from '../outbox.ts'
import type { Sql } from '../ports.ts'
import type { CreateSession } from './api.ts'
import { appendEvent, lastEventSeq } from './events.ts'
import { countQueued, runningTurn } from './turns.ts'

export interface SessionRecord {
  id: string
  organisationId: string
  project: string
  title: string
  /** erased: being deleted; to callers it is already gone. */
  status: 'open' | 'closed' | 'erased'
  provider: ProviderName
  sandboxState: SandboxState
  sandboxReason: string | null
  generation: number
  repositoryUrl: string | null
  repositoryRef: string | null
  /** Sealed. */
  repositoryToken: string | null
  model: string | null
  gate: GateRules
  trustProjectConfig: boolean
  markerNonce: string
  createdAt: number
  closedAt: number | null
}

const columns = `id, organisation_id as organisationId, project, title, status, provider, sandbox_state as sandboxState,
  sandbox_reason as sandboxReason, generation, repository_url as repositoryUrl, repository_ref as repositoryRef,
  repository_token as repositoryToken, model, gate, trust_project_config as trustProjectConfig, marker_nonce as markerNonce,
  created_at as createdAt, closed_at as closedAt`

type Row = Omit<SessionRecord, 'gate' | 'trustProjectConfig'> & { gate: string; trustProjectConfig: number }

export function loadSession(sql: Sql): SessionRecord {
  const row = sql.all<Row>(`select ${columns} from session`)[0]
  if (!row) throw new AppError('not_found', 'No such session')
  return {
    ...row,
    gate: JSON.parse(row.gate) as GateRules,
    trustProjectConfig: row.trustProjectConfig === 1,
  }
}

export function insertSession(
  sql: Sql,
  now: number,
  create: CreateSession,
  given: { provider: ProviderName; repositoryToken: string | null; markerNonce: string },
): void {
  const { input } = create
  sql.run(
    `insert into session (id, organisation_id, key_id, project, title, status, provider, sandbox_state, generation,
       repository_url, repository_ref, repository_token, model, gate, trust_project_config, marker_nonce, created_at)
     values (?, ?, ?, ?, ?, 'open', ?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?)`,
    create.sessionId,
    create.organisationId,
    create.keyId,
    input.project,
    input.title,
    given.provider,
    given.provider === 'none' ? 'none' : 'requested',
    input.repository?.url ?? null,
    input.repository?.ref ?? null,
    given.repositoryToken,
    input.model ?? null,
    JSON.stringify(input.gate),
    input.trustProjectConfig ? 1 : 0,
    given.markerNonce,
    now,
  )
  appendEvent(sql, now, 'session.created', {
    project: input.project,
    title: input.title,
    provider: given.provider,
  })
  projectSession(sql, now)
}

export function projectSession(sql: Sql, now: number): void {
  const session = loadSession(sql)
  addToOutbox(sql, now, 'session', {
    project: session.project,
    title: session.title,
    status: session.status,
    provider: session.provider,
    sandboxState: session.sandboxState,
    generation: session.generation,
    createdAt: session.createdAt,
    closedAt: session.closedAt,
  })
}

export function viewSession(sql: Sql, now: number, connected: boolean): Session {
  const record = loadSession(sql)
  return {
    id: record.id as SessionId,
    organisationId: record.organisationId as OrganisationId,
    project: record.project,
    title: record.title,
    status: record.status === 'open' ? 'open' : 'closed',
    sandbox: {
      provider: record.provider,
      state: record.sandboxState,
      generation: record.generation,
      connected,
      reason: record.sandboxReason,
    },
    repository:
      record.repositoryUrl === null ? null : { url: record.repositoryUrl, ref: record.repositoryRef },
    model: record.model,
    gate: record.gate,
    trustProjectConfig: record.trustProjectConfig,
    turn: (runningTurn(sql)?.id ?? null) as TurnId | null,
    queuedTurns: countQueued(sql),
    activeCalls: countActiveCalls(sql),
    lastEventSeq: lastEventSeq(sql),
    outbox: outboxLag(sql, now),
    createdAt: record.createdAt,
    closedAt: record.closedAt,
  }
}
