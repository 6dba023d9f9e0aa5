import type { DeadLetter } from '../../contract/status.ts'
import { hasClimbedLadder, climbLadder } from '../actor/ladder.ts'
import { outboxIdentity } from '../actor/outbox.ts'
import type { LedgerAppend, LedgerStatus, OutboxRow, RefusedRow, Sql } from '../ports.ts'
import { ledgerLadder } from './rungs/ladder.ts'

const maxListed = 100
/** What one answer tells an owner; the rest comes with later ones, once these are sent again. */
const maxTold = 200

/**
 * Which rows libSQL has refused, for the status of the deployment. Sessions and organisations keep the rows themselves,
 * and every answer tells them of a refusal until they have sent the row again, so an owner that crashes before it has
 * noted the refusal loses nothing. The ledger shard makes it and calls it; its table is made with the first refusal.
 */
export class DeadLetters {
  readonly #sql: Sql
  #exist: boolean

  constructor(sql: Sql) {
    this.#sql = sql
    this.#exist = hasClimbedLadder(sql)
    if (this.#exist) climbLadder(sql, ledgerLadder)
  }

  add(owner: LedgerAppend, row: OutboxRow, error: string, at: number): void {
    climbLadder(this.#sql, ledgerLadder)
    this.#exist = true
    const { kind, seq } = outboxIdentity(row)
    this.#sql.run(
      `insert or replace into dead_letters (session_id, organisation_id, seq, kind, error, at)
       values (?, ?, ?, ?, ?, ?)`,
      owner.sessionId,
      owner.organisationId,
      seq,
      kind,
      error.slice(0, 500),
      at,
    )
  }

  of(sessionId: string): RefusedRow[] {
    if (!this.#exist) return []
    return this.#sql.all<RefusedRow>(
      'select seq, kind, error, at from dead_letters where session_id = ? order by seq limit ?',
      sessionId,
      maxTold,
    )
  }

  /** These rows are in libSQL now. */
  settle(sessionId: string, rows: readonly OutboxRow[]): void {
    if (!this.#exist || this.of(sessionId).length === 0) return
    for (const row of rows) {
      if (row.kind === 'session.erased') return this.#delete(sessionId)
      const settled = row.kind === 'dead-letter.closed' ? closedSeq(row) : outboxIdentity(row).seq
      this.#sql.run('delete from dead_letters where session_id = ? and seq = ?', sessionId, settled)
    }
  }

  #delete(sessionId: string): void {
    this.#sql.run('delete from dead_letters where session_id = ?', sessionId)
  }

  /** Null: of all, also of those that nobody is known to own. */
  list(
    organisationId: string | null,
  ): Pick<LedgerStatus, 'deadLetters' | 'deadLetterCount' | 'unowned'> {
    if (!this.#exist) return { deadLetters: [], deadLetterCount: 0, unowned: [] }
    const isAll = organisationId === null
    const [where, values] = isAll ? ['true', []] : ['organisation_id = ?', [organisationId]]
    const [counted] = this.#sql.all<{ n: number }>(
      `select count(*) as n from dead_letters where ${where}`,
      ...values,
    )
    return {
      deadLetters: this.#newest(where, ...values),
      deadLetterCount: counted?.n ?? 0,
      unowned: isAll ? [] : this.#newest('organisation_id is null'),
    }
  }

  #newest(where: string, ...values: string[]): DeadLetter[] {
    return this.#sql.all<DeadLetter>(
      `select session_id as sessionId, seq, kind, error, at from dead_letters
       where ${where} order by at desc limit ${maxListed}`,
      ...values,
    )
  }
}

const closedSeq = ({ payload }: OutboxRow): number => (JSON.parse(payload) as { seq: number }).seq
