import type { ConfigurationId, OrganisationId, SessionId, TurnId } from '../../contract/ids.ts'
import type { Session } from '../../contract/session.ts'
import { countActiveCalls } from '../gateway/call-list.ts'
import { outboxLag } from '../outbox.ts'
import type { Sql } from '../ports.ts'
import { loadAutomationRun } from './automation.ts'
import { lastEventSeq } from './events.ts'
import { loadGeneration } from './generations.ts'
import { promptOrigin } from './prompt.ts'
import { loadSession } from './record.ts'
import { loadStart } from './start.ts'
import { countQueued, runningTurn } from './turns.ts'
import { totalUsage } from './usage.ts'

/** The session as its callers see it. */
export function viewSession(sql: Sql, now: number, connected: boolean): Session {
  const record = loadSession(sql)
  const start = loadStart(sql)
  return {
    id: record.id as SessionId,
    organisationId: record.organisationId as OrganisationId,
    project: record.project,
    title: record.title,
    status: record.status === 'erased' ? 'closed' : record.status,
    sandbox: {
      provider: record.provider,
      state: record.sandboxState,
      generation: record.generation,
      connected,
      reason: record.sandboxReason,
      failures: start.failures,
      retryAt: start.retryAt,
      endsAt: loadGeneration(sql, record.generation)?.endsAt ?? null,
    },
    idleTimeoutSeconds: record.idleTimeoutSeconds,
    replacement: record.replacement,
    limits: record.limits,
    repository:
      record.repositoryUrl === null
        ? null
        : { url: record.repositoryUrl, ref: record.repositoryRef },
    mode: record.mode,
    clientType: record.clientType,
    configurationId: record.configurationId as ConfigurationId | null,
    snapshotId: record.snapshotId,
    model: record.model,
    reasoningEffort: record.reasoningEffort,
    prompt: promptOrigin(record, loadAutomationRun(sql)?.id ?? null),
    automationRun: viewAutomationRun(sql),
    usage: totalUsage(sql),
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

function viewAutomationRun(sql: Sql): Session['automationRun'] {
  const run = loadAutomationRun(sql)
  if (!run) return null
  return {
    id: run.id,
    state: run.state,
    completionId: run.completionId,
    completedAt: run.completedAt,
  }
}
