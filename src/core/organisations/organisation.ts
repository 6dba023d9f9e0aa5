import { AppError } from '../../contract/error.ts'
import { migrate } from '../migrate.ts'
import type { Clock, Sql } from '../ports.ts'

/** The doors of one organisation: the only place that decides across its sessions. */
export interface OrganisationApi {
  /**
   * The session that stands for this Idempotency-Key: `freshSessionId` the first time, the same one ever after.
   * The same key with another body is refused.
   */
  claimCreation(key: string, bodyHash: string, freshSessionId: string): Promise<string>
  /** An automation run belongs to one session: the first that claims its id. Claiming again is harmless. */
  claimRun(runId: string, sessionId: string): Promise<void>
  /** The session was not created after all. */
  releaseRun(runId: string, sessionId: string): Promise<void>
  /** The session is being deleted: its key must not bring it back, with tokens that are still valid. */
  endCreation(sessionId: string): Promise<void>
}

const ladder = [
  [
    `create table creations (
      key text primary key,
      body_hash text not null,
      session_id text not null,
      created_at integer not null
    )`,
    'create index creations_by_age on creations (created_at)',
  ],
  ['alter table creations add column erased integer not null default 0'],
  ['create table run_claims (run_id text primary key, session_id text not null)'],
]

export const keepCreationsMs = 24 * 60 * 60_000

export class OrganisationActor implements OrganisationApi {
  readonly #sql: Sql
  readonly #now: Clock

  constructor(sql: Sql, now: Clock) {
    this.#sql = sql
    this.#now = now
  }

  async claimCreation(key: string, bodyHash: string, freshSessionId: string): Promise<string> {
    migrate(this.#sql, ladder)
    return claimCreation(this.#sql, this.#now(), key, bodyHash, freshSessionId)
  }

  async endCreation(sessionId: string): Promise<void> {
    migrate(this.#sql, ladder)
    this.#sql.run('update creations set erased = 1 where session_id = ?', sessionId)
    this.#sql.run('delete from run_claims where session_id = ?', sessionId)
  }

  async claimRun(runId: string, sessionId: string): Promise<void> {
    migrate(this.#sql, ladder)
    this.#sql.run('insert or ignore into run_claims values (?, ?)', runId, sessionId)
    const [claim] = this.#sql.all<{ session_id: string }>(
      'select session_id from run_claims where run_id = ?',
      runId,
    )
    if (claim?.session_id === sessionId) return
    throw new AppError('wrong_state', `Automation run "${runId}" belongs to another session`, [
      { path: 'automationRunId', message: 'Taken' },
    ])
  }

  async releaseRun(runId: string, sessionId: string): Promise<void> {
    migrate(this.#sql, ladder)
    this.#sql.run('delete from run_claims where run_id = ? and session_id = ?', runId, sessionId)
  }
}

function claimCreation(
  sql: Sql,
  now: number,
  key: string,
  bodyHash: string,
  freshSessionId: string,
): string {
  return sql.transaction(() => {
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
  })
}
