import { AppError, errorCodeOf } from '../../contract/error.ts'
import { clearDeadline, setDeadline } from '../actor/deadlines.ts'
import type { LedgerSender } from '../actor/ledger-sender.ts'
import { addToOutbox, lastOutboxKind } from '../actor/outbox.ts'
import type { RoomOf } from '../actor/room.ts'
import type { Sql } from '../ports.ts'
import type { Caller } from '../session/record/caller.ts'
import { stopEvalRun } from './attempts/run-end.ts'
import { hasOpenAttempts } from './record/attempts.ts'
import type { EvalRunKernel } from './record/kernel.ts'
import { ownEvalRun } from './runs.ts'

export interface ErasingApi {
  /** The run with everything that it has stored, here and in libSQL, and the sessions of its attempts. */
  erase(caller: Caller): Promise<void>
}

const againMs = 1000

/**
 * Deletes a run: when a caller asks for it, and by itself when it has been over for as long as sessions are kept. From the
 * first commit on nobody can read it; its sessions, rows and files follow step by step, each of which may be repeated. The
 * route of the run and the deadlines `purge` and `erase` call it.
 */
export class Erasing implements RoomOf<ErasingApi> {
  readonly api: ErasingApi = this
  readonly #kernel: EvalRunKernel
  readonly #outbox: LedgerSender

  constructor(kernel: EvalRunKernel, outbox: LedgerSender) {
    this.#kernel = kernel
    this.#outbox = outbox
  }

  readonly deadlines = {
    purge: () => this.#kernel.commit(begin),
    erase: () => this.#finish(),
  }

  async erase(caller: Caller): Promise<void> {
    const run = ownEvalRun(this.#kernel, caller)
    if (run.memberId !== caller.memberId && !caller.scopes?.includes('admin'))
      throw new AppError(
        'forbidden',
        'Cannot delete the run: another member has made it, ask an admin',
      )
    this.#kernel.commit(begin)
  }

  /** First what runs, then the sessions and the shared rows, then the record itself: a crash begins here again. */
  async #finish(): Promise<void> {
    const { ports } = this.#kernel
    if (hasOpenAttempts(ports.sql))
      return this.#kernel.commit((sql, now) => setDeadline(sql, 'erase', now + againMs))
    const { caller } = this.#kernel.run()
    for (const { id } of ports.sql.all<{ id: string }>('select id from sessions'))
      await ports.session(id).self.erase(caller).catch(unlessGone)
    do {
      this.#kernel.commit((sql, now) => addToOutbox(sql, now, 'session.erased', {}))
      await this.#outbox.drain()
    } while (lastOutboxKind(ports.sql) !== 'session.erased')
    this.#kernel.forget()
    await ports.host.erase()
  }
}

/** Inside a commit. From here on it is not there for callers. */
function begin(sql: Sql, now: number): void {
  clearDeadline(sql, 'purge')
  stopEvalRun(sql, now, 'cancelled', 'The run was deleted')
  sql.run(`update eval_run set status = 'erased'`)
  setDeadline(sql, 'erase', now)
}

function unlessGone(error: unknown): void {
  if (errorCodeOf(error) !== 'not_found') throw error
}
