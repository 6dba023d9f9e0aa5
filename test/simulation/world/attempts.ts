import type { Disk } from '../../../sandbox-agent/memory/disk.ts'
import { Journal } from '../../../sandbox-agent/memory/journal.ts'
import type { CommandBody } from '../../../src/contract/link.ts'
import type { ExecutionReport } from '../../../src/contract/operation.ts'

/** How long an operation takes. */
const operationMs = 3000

/**
 * Attempts of operations, each begun once: as the executor does it, first the disk says that it is begun, then it has its
 * effect, then the disk says how it ended. What was begun and cut off is unknown.
 */
export class SimulatedAttempts {
  readonly #journal: Journal<{ id: string; report: ExecutionReport | null }>
  readonly #known = new Map<string, ExecutionReport | null>()
  readonly #running = new Map<string, Promise<ExecutionReport>>()
  readonly #onEffect: (id: string) => void

  constructor(disk: Disk, onEffect: (id: string) => void) {
    const opened = Journal.open<{ id: string; report: ExecutionReport | null }>('attempts', disk)
    this.#journal = opened.journal
    for (const { id, report } of opened.lines) this.#known.set(id, report)
    this.#onEffect = onEffect
  }

  execute({ attemptId: id }: CommandBody<'execute'>): Promise<ExecutionReport> {
    const running = this.#running.get(id) ?? this.#once(id)
    this.#running.set(id, running)
    return running.finally(() => this.#running.delete(id))
  }

  cancel({ attemptId: id }: CommandBody<'cancel'>): Record<string, never> {
    if (!this.#known.has(id)) this.#keep(id, reportOf('failed', 'It was cancelled before it began'))
    return {}
  }

  async #once(id: string): Promise<ExecutionReport> {
    const known = this.#known.get(id)
    if (known !== undefined) return known ?? reportOf('unknown', 'It was begun and cut off')
    this.#keep(id, null)
    await new Promise((resolve) => setTimeout(resolve, operationMs))
    this.#onEffect(id)
    const report = reportOf('succeeded', null)
    try {
      this.#keep(id, report)
    } catch {
      // As the executor: it did happen, and this process knows it.
      this.#known.set(id, report)
    }
    return report
  }

  #keep(id: string, report: ExecutionReport | null): void {
    this.#journal.append({ id, report })
    this.#known.set(id, report)
  }
}

const reportOf = (status: ExecutionReport['status'], error: string | null): ExecutionReport => ({
  ...{ status, error, output: '', truncated: false, exitCode: status === 'succeeded' ? 0 : null },
  ...{ durationMs: operationMs, branch: null, files: [], enforced: [] },
})
