import { saveEveryMs } from '../snapshots/saving.ts'
import { clearDeadline, setDeadline } from '../../actor/deadlines.ts'
import type { Sql } from '../../ports.ts'
import { idleSinceActivity } from '../turns/activity.ts'
import { appendEvent } from '../log/events.ts'
import { loadGeneration } from '../generations/generations.ts'
import type { SessionKernel } from '../record/kernel.ts'
import type { SessionRecord } from '../record/record.ts'
import type { Saving } from '../snapshots/saving.ts'

/**
 * Saves a sandbox every ten minutes if something was done in it since it was saved last, while it goes on working. So a
 * sandbox that is lost takes at most ten minutes of work with it. Met by the deadline `sandbox.snapshot`.
 */
export class RegularSaves {
  readonly #kernel: SessionKernel
  readonly #saving: Saving

  constructor(kernel: SessionKernel, saving: Saving) {
    this.#kernel = kernel
    this.#saving = saving
  }

  async onDeadline(): Promise<void> {
    const session = this.#kernel.session()
    const isThere = session.sandboxState === 'ready'
    // Before the provider is asked: an instance that dies over it is followed by the next time.
    this.#kernel.commit((sql, now) =>
      isThere
        ? setDeadline(sql, 'sandbox.snapshot', now + saveEveryMs)
        : clearDeadline(sql, 'sandbox.snapshot'),
    )
    // A warm one has nothing to save, and goes on being looked at: it may be claimed at any time.
    if (isThere && session.status === 'open' && this.#hasWorked(session)) await this.#save(session)
  }

  #hasWorked({ generation }: SessionRecord): boolean {
    const { sql } = this.#kernel.ports
    const since = idleSinceActivity(sql, this.#kernel.instance, generation)
    const saved = savedAt(sql, generation)
    if (since !== null) return since > saved
    // At work; while it waits for a person only what was done before the question is new.
    const [asked] = sql.all<{ at: number }>(
      `select asked_at as at from asks where state = 'open' order by n limit 1`,
    )
    return asked === undefined || asked.at > saved
  }

  async #save(session: SessionRecord): Promise<void> {
    const taken = await this.#saving.take(session, 'While it works')
    const { generation } = session
    this.#kernel.commit((sql, now) => {
      if (taken.ok) taken.store(taken.begunAt)
      else if (this.#kernel.session().generation === generation)
        sayOnce(sql, now, generation, taken.reason)
    })
  }
}

/** What it started from counts as saved. */
function savedAt(sql: Sql, generation: number): number {
  const [row] = sql.all<{ at: number | null }>(
    'select max(created_at) as at from snapshots where generation = ?',
    generation,
  )
  return row?.at ?? loadGeneration(sql, generation)?.readyAt ?? 0
}

/** The same reason every ten minutes would be noise. */
function sayOnce(sql: Sql, now: number, generation: number, reason: string): void {
  const known = sql.all(
    `select 1 from events where kind = 'sandbox.kept' and json_extract(data, '$.generation') = ?
       and json_extract(data, '$.reason') = ? limit 1`,
    generation,
    reason,
  )
  if (known.length > 0) return
  const retryAt = now + saveEveryMs
  appendEvent(sql, now, 'sandbox.kept', { generation, reason, retryAt })
}
