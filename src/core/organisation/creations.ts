import { AppError } from '../../contract/error.ts'
import type { Sql } from '../ports.ts'
import type { RoomOf } from '../actor/room.ts'
import { type CreationsApi, keepCreationsMs } from './record/api.ts'
import type { OrganisationKernel } from './record/kernel.ts'

/**
 * The room of what belongs to one session of all: the creation that an Idempotency-Key names, and the automation run that
 * one session may work on. It promises that a key makes one session, however often a creation is sent, and that the key
 * of a deleted session does not bring it back. Called by whoever creates or deletes a session.
 */
export function createCreations(kernel: OrganisationKernel): RoomOf<CreationsApi> {
  return {
    api: {
      claim: async (key, bodyHash, freshSessionId) =>
        kernel.commit((sql, now) => claimCreation(sql, now, { key, bodyHash, freshSessionId })),
      claimRun: async (runId, sessionId) => kernel.commit((sql) => claimRun(sql, runId, sessionId)),
      releaseRun: async (runId, sessionId) =>
        kernel.commit((sql) => releaseRun(sql, runId, sessionId)),
      end: async (sessionId) => kernel.commit((sql) => endCreation(sql, sessionId)),
    },
  }
}

interface Creation {
  key: string
  bodyHash: string
  freshSessionId: string
}

function claimCreation(sql: Sql, now: number, creation: Creation): string {
  const { key, bodyHash, freshSessionId } = creation
  sql.run('delete from creations where created_at < ?', now - keepCreationsMs)
  const [claim] = sql.all<{ body_hash: string; session_id: string; erased: number }>(
    'select body_hash, session_id, erased from creations where key = ?',
    key,
  )
  if (!claim) {
    sql.run(
      'insert into creations (key, body_hash, session_id, created_at) values (?, ?, ?, ?)',
      key,
      bodyHash,
      freshSessionId,
      now,
    )
    return freshSessionId
  }
  if (claim.body_hash !== bodyHash) {
    throw new AppError('key_conflict', 'This Idempotency-Key was used with another body')
  }
  if (claim.erased) {
    throw new AppError('wrong_state', 'The session that this Idempotency-Key created was deleted')
  }
  return claim.session_id
}

function endCreation(sql: Sql, sessionId: string): void {
  // A session that was warm has another id than its creation.
  sql.run(
    `update creations set erased = 1
     where session_id in (?1, (select claimed_for from warm_sessions where session_id = ?1))`,
    sessionId,
  )
  sql.run('delete from warm_sessions where session_id = ? and claimed_for is null', sessionId)
  sql.run('delete from run_claims where session_id = ?', sessionId)
}

function claimRun(sql: Sql, runId: string, sessionId: string): void {
  sql.run('insert or ignore into run_claims values (?, ?)', runId, sessionId)
  const [claim] = sql.all<{ session_id: string }>(
    'select session_id from run_claims where run_id = ?',
    runId,
  )
  if (claim?.session_id === sessionId) return
  throw new AppError('wrong_state', `Automation run "${runId}" belongs to another session`, [
    { path: 'automationRunId', message: 'Taken' },
  ])
}

function releaseRun(sql: Sql, runId: string, sessionId: string): void {
  sql.run('delete from run_claims where run_id = ? and session_id = ?', runId, sessionId)
}
