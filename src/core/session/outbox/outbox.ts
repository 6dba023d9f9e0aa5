import type { Room } from '../../actor/room.ts'
import type { Written } from '../../actor/writes.ts'
import { keepDeadLetters } from '../../actor/dead-letters.ts'
import { jitteredBackoffMs } from '../../actor/jitter.ts'
import { clearDeadline, clearTakenDeadline, setDeadline } from '../../actor/deadlines.ts'
import { describeCalls } from '../calls/rows.ts'
import {
  hasUnsentOutbox,
  nextOutboxVerification,
  outboxLag,
  outboxReach,
  outboxWatermark,
  setOutboxWatermark,
  unsentOutbox,
  unsentOutboxKinds,
} from '../../actor/outbox.ts'
import type { LedgerAnswer, OutboxRow } from '../../ports.ts'
import { describeTimeline } from '../runs/timeline.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { describeUploadSweeps } from '../calls/uploads.ts'

/** Rows of one burst travel together. */
const gatherMs = 200
/** If all of them are calls: these are only for the record, and most of what a lone call costs is its sending. */
const gatherCallsMs = 1000
/** What a commit writes that begins or ends calls and nothing else. */
const callTables: ReadonlySet<string> = new Set(['calls', 'outbox', 'events', 'deadlines'])

/**
 * Sends the outbox to the ledger, in order, one batch at a time. A commit that has written a row wakes it, and rows of
 * one burst travel together; its deadline is only the safety net. While libSQL is away it tries again, ever more rarely,
 * and the session goes on.
 */
export class Outbox implements Room {
  readonly #kernel: SessionKernel
  #sending = false
  #failures = 0
  #notBefore = 0
  /** While calls are gathered: something else has come that should not wait so long. */
  #hurry: (() => void) | null = null

  constructor(kernel: SessionKernel) {
    this.#kernel = kernel
  }

  readonly deadlines = {
    outbox: () => this.#onDeadline(),
    'outbox.verify': () => this.#onVerify(),
  }

  readonly written = (tables: Written): void => {
    // The mark alone moves back if libSQL has lost rows.
    if (!tables.has('outbox') && !tables.has('outbox_mark')) return
    if (this.#hurry === null) this.#wake()
    else if (!isOfCalls(tables)) this.#hurryOn()
  }

  #wake(): void {
    const { ports } = this.#kernel
    if (this.#sending || ports.now() < this.#notBefore || !this.#kernel.created) return
    const kinds = unsentOutboxKinds(ports.sql, 'call')
    if (kinds === 'none') return
    this.#sending = true
    ports.host.defer(this.#gatherAndSend(kinds === 'only'))
  }

  /** Something else than calls may have come. */
  #hurryOn(): void {
    if (this.#kernel.created && unsentOutboxKinds(this.#kernel.ports.sql, 'call') === 'only') return
    this.#hurry?.()
  }

  async #gatherAndSend(onlyCalls: boolean): Promise<void> {
    try {
      await this.#gather(onlyCalls)
      await this.#sendBurst()
      this.#failures = 0
      this.#kernel.outboxWaits = null
    } catch (error) {
      this.#putOff(error)
    } finally {
      this.#sending = false
    }
    // What was committed while the last batch was on its way.
    this.#wake()
  }

  async #gather(onlyCalls: boolean): Promise<void> {
    const { host } = this.#kernel.ports
    if (!onlyCalls) return host.sleep(gatherMs)
    const others = new Promise<void>((resolve) => (this.#hurry = resolve))
    try {
      await Promise.race([host.sleep(gatherCallsMs), others.then(() => host.sleep(gatherMs))])
    } finally {
      this.#hurry = null
    }
  }

  /** What comes meanwhile and is newer travels with the next burst: a busy session would send row by row. */
  async #sendBurst(): Promise<void> {
    if (!this.#kernel.created) return
    const { watermark, newest } = outboxReach(this.#kernel.ports.sql)
    await this.#sendUpTo(newest, watermark)
  }

  async #sendAll(): Promise<void> {
    if (this.#kernel.created)
      await this.#sendUpTo(Infinity, outboxWatermark(this.#kernel.ports.sql))
  }

  async #sendUpTo(newest: number, from: number): Promise<void> {
    for (let mark = from; this.#kernel.created && mark < newest;) {
      const rows = this.#unsent()
      if (rows.length === 0) return
      mark = await this.#append(rows, mark)
    }
  }

  #unsent(): OutboxRow[] {
    const { sql, crypto } = this.#kernel.ports
    const sign = (text: string) => crypto.sign(text)
    const describe = (rows: OutboxRow[]) =>
      describeUploadSweeps(sql, describeTimeline(sql, describeCalls(sql, rows), sign))
    return unsentOutbox(sql, describe)
  }

  /** `after` is the mark as it is now; answers the next one. */
  async #append(rows: OutboxRow[], after: number): Promise<number> {
    const { ports } = this.#kernel
    const session = this.#kernel.session()
    await this.#kernel.crash('outbox.before-send')
    const answer = await ports.ledger(session.id).append({
      sessionId: session.id,
      organisationId: session.organisationId,
      after,
      rows,
    })
    await this.#kernel.crash('outbox.after-send')
    const { stored } = answer
    if (stored < after)
      ports.log('warn', 'libSQL has lost rows, sending them again', {
        sessionId: session.id,
        after,
        stored,
      })
    const opening = answer.refused.length > 0 ? this.#kernel.openSecrets() : undefined
    if (opening) await opening
    return this.#kernel.created ? this.#store(answer, after) : after
  }

  /** Not through a commit: nobody need hear of it, and it would wake this very sender. */
  #store({ stored, refused }: LedgerAnswer, after: number): number {
    const { sql, now } = this.#kernel.ports
    if (refused.length === 0) return setOutboxWatermark(sql, now(), stored, after)
    const shown = refused.map((row) => ({ ...row, error: this.#kernel.redact(row.error) }))
    return sql.transaction(() => {
      const mark = stored < after ? stored : Math.max(stored, outboxWatermark(sql))
      keepDeadLetters(sql, { stored: mark, refused: shown })
      return setOutboxWatermark(sql, now(), mark)
    })
  }

  #putOff(error: unknown): void {
    const { ports } = this.#kernel
    const delayMs = jitteredBackoffMs(this.#failures)
    this.#failures += 1
    this.#notBefore = ports.now() + delayMs
    const reason = error instanceof Error ? error.message : String(error)
    this.#kernel.outboxWaits = reason
    ports.log('warn', 'Cannot reach the ledger, will try again', { delayMs, error: reason })
    if (!this.#kernel.created) return
    this.#kernel.commit((sql, now) => setDeadline(sql, 'outbox', now + delayMs))
  }

  /** The alarm's part: what the quick path did not manage. */
  async #onDeadline(): Promise<void> {
    this.#notBefore = 0
    if (!this.#sending && hasUnsentOutbox(this.#kernel.ports.sql)) {
      this.#sending = true
      await this.#gatherAndSend(false)
    }
    if (outboxLag(this.#kernel.ports.sql, 0).pending > 0) return
    this.#kernel.commit((sql, now) => {
      clearDeadline(sql, 'outbox')
      setDeadline(sql, 'outbox.verify', nextOutboxVerification(now))
    })
  }

  /** Long after the last row: does libSQL still have it? */
  async #onVerify(): Promise<void> {
    await this.ask()
    if (outboxLag(this.#kernel.ports.sql, 0).pending > 0) await this.#sendAll()
    this.#kernel.commit((sql) => clearTakenDeadline(sql, 'outbox.verify'))
  }

  /** How far libSQL is, and which rows it has refused. */
  async ask(): Promise<void> {
    await this.#append([], outboxWatermark(this.#kernel.ports.sql))
  }

  /** Everything is in libSQL, or this throws. */
  readonly drain = (): Promise<void> => this.#sendAll()
}

const isOfCalls = (tables: Written) => tables.has('calls') && tables.isSubsetOf(callTables)
