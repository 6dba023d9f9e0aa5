import { keepDeadLetters } from './dead-letters.ts'
import { clearDeadline, clearTakenDeadline, setDeadline } from './deadlines.ts'
import {
  hasUnsentOutbox,
  nextOutboxVerification,
  outboxWatermark,
  setOutboxWatermark,
  unsentOutbox,
} from './outbox.ts'
import type { Meeting } from './room.ts'
import type { Clock, Ledger, OutboxRow, Sql } from '../ports.ts'

interface Owner {
  created: boolean
  ports: { sql: Sql; now: Clock; ledger(id: string): Ledger }
  commit(work: (sql: Sql, now: number) => void): void
}

/**
 * Sends the outbox of an actor whose rows nobody waits for: at the deadline `outbox` only, which each row sets, and which
 * comes again if that fails. Long after the last row, `outbox.verify` asks whether libSQL still has it. An organisation
 * and an eval run have one each; a session's rows travel sooner, by its own room.
 */
export class LedgerSender {
  readonly #owner: Owner
  readonly #who: () => { id: string; organisationId: string }

  constructor(owner: Owner, who: () => { id: string; organisationId: string }) {
    this.#owner = owner
    this.#who = who
  }

  readonly deadlines: Record<string, Meeting> = {
    outbox: () => this.#send(),
    'outbox.verify': () => this.#verify(),
  }

  /** How far libSQL is, and which rows it has refused. */
  async ask(): Promise<void> {
    if (this.#owner.created) await this.#append([])
  }

  /** Everything is in libSQL, or this throws. */
  async drain(): Promise<void> {
    const { sql } = this.#owner.ports
    for (let rows = unsentOutbox(sql); rows.length > 0; rows = unsentOutbox(sql))
      await this.#append(rows)
  }

  async #send(): Promise<void> {
    await this.drain()
    this.#owner.commit((sql, now) => {
      // What was committed while the last batch was on its way has found this deadline set.
      if (hasUnsentOutbox(sql)) return setDeadline(sql, 'outbox', now)
      clearDeadline(sql, 'outbox')
      setDeadline(sql, 'outbox.verify', nextOutboxVerification(now))
    })
  }

  async #verify(): Promise<void> {
    await this.ask()
    await this.drain()
    this.#owner.commit((sql) => clearTakenDeadline(sql, 'outbox.verify'))
  }

  async #append(rows: OutboxRow[]): Promise<void> {
    const { ports } = this.#owner
    const { sql, now } = ports
    const { id, organisationId } = this.#who()
    const after = outboxWatermark(sql)
    const answer = await ports.ledger(id).append({ sessionId: id, organisationId, after, rows })
    // A mere question may be answered after rows that were sent meanwhile: only a loss moves the mark back.
    const isLoss = answer.stored < after
    const stored = isLoss ? answer.stored : Math.max(answer.stored, outboxWatermark(sql))
    sql.transaction(() => {
      keepDeadLetters(sql, { ...answer, stored })
      setOutboxWatermark(sql, now(), stored)
    })
  }
}
