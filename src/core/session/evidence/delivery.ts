import type { CommandBody } from '../../../contract/link.ts'
import type { DeliveredSession, DeliveryRecord } from '../../../contract/evidence.ts'
import type { Sql } from '../../ports.ts'
import { loadPolicyPlace } from '../gate/policy-row.ts'
import { loadSession } from '../record/record.ts'
import { type ToldPart, toldParts, toldSteps } from './told.ts'

/** A turn as far as it was handed to a sandbox. */
export interface DeliveredTurn {
  id: string
  runId: string
  generation: number
  /** OpenCode's session. Null: its agent could not say. */
  opencodeSessionId: string | null
  /** The prompts, as OpenCode got them. */
  messageIds: string[]
}

interface TurnRow {
  id: string
  run_id: string | null
  message_id: string
  opencode_session_id: string | null
  generation: number | null
}

/** Null: it never reached a sandbox, or has no run. */
export function turnDelivery(sql: Sql, turnId: string): DeliveredTurn | null {
  const [row] = sql.all<TurnRow>(
    `select turns.id, run_id, message_id, opencode_session_id,
       (select generation from commands where commands.id = turns.id) as generation
     from turns where turns.id = ? and started_at is not null`,
    turnId,
  )
  if (!row || row.run_id === null || row.generation === null) return null
  return {
    id: row.id,
    runId: row.run_id,
    generation: row.generation,
    opencodeSessionId: row.opencode_session_id,
    messageIds: [row.message_id, ...steersOf(sql, turnId)],
  }
}

/** What a person said while the turn ran is a prompt of it, too. */
function steersOf(sql: Sql, turnId: string): string[] {
  return sql
    .all<{ body: string }>(
      `select body from commands where kind = 'prompt' and id <> ?1 and json_extract(body, '$.turnId') = ?1
       order by n`,
      turnId,
    )
    .map(({ body }) => (JSON.parse(body) as CommandBody<'prompt'>).messageId)
}

/** Everything in it is the session's own: its rows, and what came over the link while the turn ran. */
export function evidenceDelivery(sql: Sql, turn: DeliveredTurn): DeliveryRecord {
  const session = loadSession(sql)
  const told = toldParts(sql, turn.id)
  const sessions = sessionsOf(turn, told)
  return {
    attribution: turn.opencodeSessionId === null ? 'compatible' : 'strict-delivery',
    organisationId: session.organisationId as DeliveryRecord['organisationId'],
    project: session.project,
    runId: turn.runId as DeliveryRecord['runId'],
    sessionId: session.id as DeliveryRecord['sessionId'],
    generation: turn.generation,
    turnId: turn.id as DeliveryRecord['turnId'],
    workspaceRoot: loadPolicyPlace(sql).layout?.workspace ?? '/',
    sessions,
    seenParts: told,
    seenSteps: toldSteps(sql, turn.id),
  }
}

function sessionsOf(turn: DeliveredTurn, told: readonly ToldPart[]): DeliveredSession[] {
  const members = new Map<string, string | null>()
  for (const { sessionId, agent } of told)
    if ((members.get(sessionId) ?? null) === null) members.set(sessionId, agent)
  const ids = [...members.keys()]
  const own = turn.opencodeSessionId ?? ids[0] ?? 'unknown'
  const member = (id: string) => members.get(id) ?? 'unknown'
  return [
    { id: own, member: member(own), userMessageIds: turn.messageIds },
    ...ids
      .filter((id) => id !== own)
      .map((id) => ({ id, member: member(id), userMessageIds: null })),
  ].slice(0, 1000)
}
