import type { SandboxAction, SandboxActionKind } from '../../../contract/limits.ts'
import type { ProviderName } from '../../../contract/sandbox.ts'
import { addToOutbox } from '../../actor/outbox.ts'
import type { Db, Sql } from '../../ports.ts'

const maxReasonLength = 500

interface Action {
  action: SandboxActionKind
  reason: string
  /** A key's id, or the part of Gantry that acts. */
  actor: string
  sandbox?: { sessionId: string; generation: number; provider: ProviderName }
  provider?: ProviderName
}

/** On its way to libSQL in the same transaction as what it tells of. */
export function addAction(sql: Sql, now: number, action: Action): void {
  const { sandbox } = action
  addToOutbox(sql, now, 'sandbox_action', {
    action: action.action,
    reason: shorten(action.reason),
    actor: action.actor,
    sessionId: sandbox?.sessionId ?? null,
    generation: sandbox?.generation ?? null,
    provider: sandbox?.provider ?? action.provider ?? null,
    createdAt: now,
  })
}

export const shorten = (reason: string): string => reason.slice(0, maxReasonLength).toWellFormed()

/** Newest first. From libSQL, so an action may appear here a few seconds after it was taken. */
export async function listActions(
  db: Db,
  organisationId: string,
  page: { before: number | null; limit: number },
): Promise<SandboxAction[]> {
  return await db.all<SandboxAction>(
    `select outbox_seq as seq, action, session_id as sessionId, generation, provider, reason, actor,
            created_at as createdAt
     from sandbox_actions where organisation_id = ? and outbox_seq < ?
     order by outbox_seq desc limit ?`,
    organisationId,
    page.before ?? Number.MAX_SAFE_INTEGER,
    page.limit,
  )
}
