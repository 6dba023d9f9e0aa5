import type { Ledger, LedgerAnswer, LedgerAppend, RefusedRow } from '../../src/core/ports.ts'
import type { RecordedHead } from '../../src/core/session/runs/verify.ts'

/** libSQL's side in memory: keeps rows by number, may be away, may lose its last writes. */
export class MemoryLedger implements Ledger {
  readonly rows = new Map<number, LedgerAppend['rows'][number]>()
  away = false
  appends = 0
  /** What it tells of with every answer. */
  refused: RefusedRow[] = []

  async append(input: LedgerAppend): Promise<LedgerAnswer> {
    this.appends += 1
    if (this.away) throw Object.assign(new Error('away'), { code: 'storage_unavailable' })
    const stored = Math.max(0, ...this.rows.keys())
    if (stored < input.after) return { stored, refused: this.refused }
    for (const row of input.rows) this.rows.set(row.seq, row)
    return { stored: input.rows.at(-1)?.seq ?? input.after, refused: this.refused }
  }

  /** What a table holds of one kind, the newest of each id. */
  projected<T extends object>(kind: string, idOf: (payload: T) => string): T[] {
    const newest = new Map<string, T>()
    for (const row of this.rows.values()) {
      if (row.kind !== kind) continue
      const payload = JSON.parse(row.payload) as T
      newest.set(idOf(payload), payload)
    }
    return [...newest.values()]
  }

  /** The newest entry of a timeline, as libSQL would give it. */
  heads(runId: string): RecordedHead[] {
    const entries = this.projected<RecordedHead & { runId: string }>(
      'run_event',
      ({ runId: run, seq }) => `${run} ${seq}`,
    )
    return entries
      .filter((entry) => entry.runId === runId)
      .toSorted((a, b) => b.seq - a.seq)
      .slice(0, 1)
  }

  lose(count: number): void {
    for (const seq of [...this.rows.keys()].sort((a, b) => b - a).slice(0, count))
      this.rows.delete(seq)
  }
}
