import { backoffMs, clearDeadline, setDeadline } from '../deadlines.ts'
import { describeCalls } from '../gateway/call-rows.ts'
import {
  hasUnsent,
  lastSeq,
  nextVerification,
  outboxLag,
  outboxWatermark,
  setWatermark,
  unsentRows,
} from '../outbox.ts'
import type { OutboxRow } from '../ports.ts'
import { headText } from '../runs/timeline.ts'
import type { Kernel } from './kernel.ts'

/** Rows of one burst travel together. */
const gatherMs = 200

/** Sends the outbox in order, one batch at a time. */
export class OutboxSender {
  readonly #kernel: Kernel
  #sending = false
  #failures = 0
  #notBefore = 0

  constructor(kernel: Kernel) {
    this.#kernel = kernel
    kernel.onCommit = () => this.#wake()
  }

  #wake(): void {
    const { ports } = this.#kernel
    if (this.#sending || ports.now() < this.#notBefore) return
    if (!this.#kernel.created || !hasUnsent(ports.sql)) return
    this.#sending = true
    ports.host.defer(this.#gatherAndSend())
  }

  async #gatherAndSend(): Promise<void> {
    try {
      await this.#kernel.ports.host.sleep(gatherMs)
      await this.#sendAll(this.#newest())
      this.#failures = 0
    } catch (error) {
      this.#putOff(error)
    } finally {
      this.#sending = false
    }
    // What was committed while the last batch was on its way.
    this.#wake()
  }

  /** What comes meanwhile and is newer travels with the next burst: a busy session would send row by row. */
  async #sendAll(newest = Infinity): Promise<void> {
    while (this.#kernel.created && outboxWatermark(this.#kernel.ports.sql) < newest) {
      const rows = this.#unsent()
      if (rows.length === 0) return
      await this.#append(rows)
    }
  }

  #newest(): number {
    return this.#kernel.created ? lastSeq(this.#kernel.ports.sql) : 0
  }

  #unsent() {
    const { sql } = this.#kernel.ports
    return this.#kernel.created ? unsentRows(sql, (rows) => describeCalls(sql, rows)) : []
  }

  async #append(rows: ReturnType<typeof unsentRows>): Promise<void> {
    const { ports } = this.#kernel
    const session = this.#kernel.session()
    const after = outboxWatermark(ports.sql)
    await this.#kernel.crash('outbox.before-send')
    const stored = await ports.ledger(session.id).append({
      sessionId: session.id,
      organisationId: session.organisationId,
      after,
      rows: rows.map((row) => signHead(row, (text) => ports.crypto.sign(text))),
    })
    await this.#kernel.crash('outbox.after-send')
    if (stored < after)
      ports.log('warn', 'libSQL has lost rows, sending them again', {
        sessionId: session.id,
        after,
        stored,
      })
    // Not through commit(): nothing to publish, and onCommit would re-enter.
    if (this.#kernel.created) setWatermark(ports.sql, ports.now(), stored)
  }

  #putOff(error: unknown): void {
    const { ports } = this.#kernel
    const delayMs = backoffMs(this.#failures)
    this.#failures += 1
    this.#notBefore = ports.now() + delayMs
    ports.log('warn', 'Cannot reach the ledger, will try again', {
      delayMs,
      error: error instanceof Error ? error.message : String(error),
    })
    if (!this.#kernel.created) return
    this.#kernel.commit((sql, now) => setDeadline(sql, 'outbox', now + delayMs))
  }

  /** The alarm's part: what the quick path did not manage. */
  async onDeadline(): Promise<void> {
    this.#notBefore = 0
    if (!this.#sending && hasUnsent(this.#kernel.ports.sql)) {
      this.#sending = true
      await this.#gatherAndSend()
    }
    if (outboxLag(this.#kernel.ports.sql, 0).pending > 0) return
    this.#kernel.commit((sql, now) => {
      clearDeadline(sql, 'outbox')
      setDeadline(sql, 'outbox.verify', nextVerification(now))
    })
  }

  /** Long after the last row: does libSQL still have it? */
  async onVerify(): Promise<void> {
    await this.#append([])
    if (outboxLag(this.#kernel.ports.sql, 0).pending > 0) await this.#sendAll()
    this.#kernel.commit((sql) => clearDeadline(sql, 'outbox.verify'))
  }

  /** Everything is in libSQL, or this throws. */
  async drain(): Promise<void> {
    await this.#sendAll()
  }
}

/** An entry of a timeline travels with the signature of the head that it is. */
function signHead(row: OutboxRow, sign: (text: string) => string): OutboxRow {
  if (row.kind !== 'run_event') return row
  const { runId, seq, hash } = JSON.parse(row.payload) as {
    runId: string
    seq: number
    hash: string
  }
  const signature = JSON.stringify(sign(headText(runId, seq, hash)))
  return { ...row, payload: `${row.payload.slice(0, -1)},"signature":${signature}}` }
}
