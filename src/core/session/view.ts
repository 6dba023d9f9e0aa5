import type {
  ConfigurationId,
  MemberId,
  OrganisationId,
  SessionId,
  TurnId,
} from '../../contract/ids.ts'
import type { Session } from '../../contract/session.ts'
import { countDeadLetters } from '../actor/dead-letters.ts'
import { countActiveCalls } from './calls/rows.ts'
import { outboxLag } from '../actor/outbox.ts'
import type { Sql } from '../ports.ts'
import { loadAutomationRun } from './automation/automation.ts'
import { loadPolicyEnclosure } from './gate/policy-row.ts'
import { lastEventSeq } from './log/events.ts'
import { loadGeneration } from './generations/generations.ts'
import type { SessionKernel } from './record/kernel.ts'
import { manifestPromptOrigin } from './manifest/prompt.ts'
import { loadSession } from './record/record.ts'
import { listPins } from './pins/pins.ts'
import { loadStart } from './generations/sandbox-start.ts'
import { countQueuedTurns, runningTurn } from './turns/rows.ts'
import { totalUsage } from './budget/usage.ts'

/** The session as its callers see it. */
export function viewSession({ ports: { sql, now, host }, outboxWaits }: SessionKernel): Session {
  const record = loadSession(sql)
  const start = loadStart(sql)
  return {
    id: record.id as SessionId,
    organisationId: record.organisationId as OrganisationId,
    memberId: record.memberId as MemberId | null,
    project: record.project,
    title: record.title,
    status: record.status === 'erased' ? 'closed' : record.status,
    sandbox: {
      provider: record.provider,
      state: record.sandboxState,
      generation: record.generation,
      connected: host.agentConnected(),
      reason: record.sandboxReason,
      failures: start.failures,
      retryAt: start.retryAt,
      endsAt: loadGeneration(sql, record.generation)?.endsAt ?? null,
      enclosure: loadPolicyEnclosure(sql, record.generation),
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
    agent_config: record.agentConfig,
    configurationId: record.configurationId as ConfigurationId | null,
    snapshotId: record.snapshotId,
    model: record.model,
    reasoningEffort: record.reasoningEffort,
    prompt: manifestPromptOrigin(record, loadAutomationRun(sql)?.id ?? null),
    automationRun: viewAutomationRun(sql),
    usage: totalUsage(sql),
    pins: listPins(sql),
    gate: record.gate,
    trustProjectConfig: record.trustProjectConfig,
    turn: (runningTurn(sql)?.id ?? null) as TurnId | null,
    queuedTurns: countQueuedTurns(sql),
    activeCalls: countActiveCalls(sql),
    lastEventSeq: lastEventSeq(sql),
    outbox: { ...outboxLag(sql, now()), reason: outboxWaits, deadLetters: countDeadLetters(sql) },
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
