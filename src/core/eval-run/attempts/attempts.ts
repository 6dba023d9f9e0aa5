import { AppError, errorCodeOf, errorTable } from '../../../contract/error.ts'
import type { ProviderResponse } from '../../../contract/eval-response.ts'
import { clearDeadline, clearTakenDeadline, setDeadline } from '../../actor/deadlines.ts'
import type { Room } from '../../actor/room.ts'
import type { Sql } from '../../ports.ts'
import { responseWithoutRoot } from '../../evals/response/answer.ts'
import { responseWithin } from '../../evals/response/within.ts'
import { tellEvalEvent } from '../record/events.ts'
import type { Given, Progress } from '../providers/provider.ts'
import type { Providers } from '../providers/providers.ts'
import type { EvalRunKernel } from '../record/kernel.ts'
import { loadRecordedEvalCase, loadRecordedEvalTarget } from '../record/record.ts'
import { endEvalAttemptWithError } from './ending.ts'
import { endEvalRun, attemptShare, stopEvalRun } from './run-end.ts'
import type { Judging } from './judging.ts'
import {
  type AttemptRow,
  hasAttemptsUnderWay,
  hasOpenAttempts,
  leaveEvalAttempt,
  loadEvalAttempt,
  nextPendingEvalAttempt,
  attemptSubject,
} from '../record/attempts.ts'

/** So often in a row may a step fail for reasons that may pass. */
const maxFailures = 6

/**
 * Drives the attempts of a run. At the deadline `plan` as many are begun as workers and budget allow; each has a deadline
 * `attempt:N` of its own that takes it one step further, from its provider's work to its result. A step is repeatable, and
 * what it has reached is committed before the next begins, so a crash costs at most one step. An attempt with a result is
 * not touched again.
 */
export class Attempts implements Room {
  readonly #kernel: EvalRunKernel
  readonly #providers: Providers
  readonly #judging: Judging

  constructor(kernel: EvalRunKernel, providers: Providers, judging: Judging) {
    this.#kernel = kernel
    this.#providers = providers
    this.#judging = judging
  }

  readonly deadlines = {
    plan: () => this.#kernel.commit((sql, now) => this.#plan(sql, now)),
    time: () => this.#kernel.commit((sql, now) => outOfTime(sql, now)),
    attempt: (n: string, failures: number) => this.#step(Number(n), failures),
    close: () => this.#close(),
  }

  /** Inside a commit: begins what may begin now, and ends the run if nothing is left. */
  #plan(sql: Sql, now: number): void {
    clearDeadline(sql, 'plan')
    const run = this.#kernel.run()
    if (!hasOpenAttempts(sql)) return endEvalRun(sql, now, this.#kernel.ports.config.retentionMs)
    if (run.status !== 'running') return
    const rows = nextPendingEvalAttempt(sql, run.workers)
    if (rows.length === 0) return
    const share = attemptShare(sql, run, rows.length)
    if (share !== 0) for (const row of rows) begin(sql, now, row, share)
    // Those that run keep what they were given, and may leave some of it.
    else if (!hasAttemptsUnderWay(sql))
      stopEvalRun(sql, now, 'stopped', "The run's budget is spent")
  }

  async #step(n: number, failures: number): Promise<void> {
    const row = loadEvalAttempt(this.#kernel.ports.sql, n)
    if (row.state === 'done' || row.state === 'pending') return this.#forget(n)
    try {
      if (this.#kernel.run().status !== 'running') return await this.#giveUp(row)
      if (row.state === 'judging') return await this.#judging.judge(this.#given(row))
      await this.#work(row)
    } catch (error) {
      if (failures < maxFailures && mayPass(error)) throw error
      this.#fail(row, { kind: 'failed', error: messageOf(error), isTimeout: false }, 0)
    }
  }

  #forget(n: number): void {
    this.#kernel.commit((sql) => clearDeadline(sql, `attempt:${n}`))
  }

  #given(attempt: AttemptRow): Given {
    const { sql } = this.#kernel.ports
    const target = loadRecordedEvalTarget(sql, attempt.target)
    if (target === null) throw new Error(`The run has no target "${attempt.target}"`)
    return {
      run: this.#kernel.run(),
      target,
      evalCase: loadRecordedEvalCase(sql, attempt.case_id),
      attempt,
    }
  }

  async #work(row: AttemptRow): Promise<void> {
    const given = this.#given(row)
    const provider = this.#providers.of(given.target)
    const progress = await provider.work(given)
    // The row may have moved on meanwhile: the provider keeps its ids there.
    const current = { ...given, attempt: loadEvalAttempt(this.#kernel.ports.sql, row.n) }
    if (current.attempt.state === 'done') return
    if (progress.kind === 'later')
      return this.#kernel.commit((sql) => setDeadline(sql, `attempt:${row.n}`, progress.at))
    const root = (await provider.workspace?.(current)) ?? ''
    if (progress.kind === 'answered')
      return this.#answered(row.n, responseWithoutRoot(progress.response, root))
    const spent = (await provider.spentMicros?.(current)) ?? 0
    this.#fail(current.attempt, responseWithoutRoot(progress, root), spent)
  }

  #answered(n: number, response: ProviderResponse): void {
    this.#kernel.commit((sql, now) => {
      sql.run(
        `update attempts set state = 'judging', response = ? where n = ? and state <> 'done'`,
        JSON.stringify(responseWithin(response)),
        n,
      )
      setDeadline(sql, `attempt:${n}`, now)
    })
  }

  /** Only what was too slow is begun anew; everything else would end the same again. */
  #fail(row: AttemptRow, failed: Extract<Progress, { kind: 'failed' }>, spentMicros: number): void {
    const { target } = this.#given(row)
    this.#kernel.commit((sql, now) => {
      if (loadEvalAttempt(sql, row.n).state === 'done') return
      clearDeadline(sql, `attempt:${row.n}`)
      const isRunning = this.#kernel.run().status === 'running'
      if (isRunning && failed.isTimeout && row.attempt < target.maxRetries)
        return beginAnew(sql, now, row, failed.error, spentMicros)
      endEvalAttemptWithError(sql, now, row, failed.error, spentMicros)
    })
  }

  /** The run is over before this attempt is. */
  async #giveUp(row: AttemptRow): Promise<void> {
    const given = this.#given(row)
    const provider = this.#providers.of(given.target)
    const reason = given.run.reason ?? `The run was ${given.run.status}`
    await provider.abort?.(given, reason)
    const spent = (await provider.spentMicros?.(given)) ?? 0
    this.#kernel.commit((sql, now) => {
      clearDeadline(sql, `attempt:${row.n}`)
      endEvalAttemptWithError(sql, now, row, reason, spent)
    })
  }

  /** Sessions that attempts have left. One that is gone already is closed. */
  async #close(): Promise<void> {
    const { ports } = this.#kernel
    const { caller } = this.#kernel.run()
    const left = ports.sql.all<{ id: string }>(
      'select id from sessions where is_closed = 0 order by n',
    )
    for (const { id } of left) {
      try {
        await ports.session(id).self.close(caller, 'The eval attempt has ended')
      } catch (error) {
        if (errorCodeOf(error) !== 'not_found') throw error
      }
      this.#kernel.commit((sql) => sql.run('update sessions set is_closed = 1 where id = ?', id))
    }
    this.#kernel.commit((sql) => clearTakenDeadline(sql, 'close'))
  }
}

function begin(sql: Sql, now: number, row: AttemptRow, share: number | null): void {
  sql.run(
    `update attempts set state = 'starting', started_at = ?, reserved_micros = ? where n = ?`,
    now,
    share ?? 0,
    row.n,
  )
  tellEvalEvent(sql, now, 'attempt.started', { ...attemptSubject(row), attempt: row.attempt })
  setDeadline(sql, `attempt:${row.n}`, now)
}

function beginAnew(
  sql: Sql,
  now: number,
  row: AttemptRow,
  reason: string,
  spentMicros: number,
): void {
  leaveEvalAttempt(sql, now, row)
  sql.run(
    `update attempts set state = 'pending', attempt = attempt + 1, session_id = null, turn_id = null, due_at = null,
       tried = null, began = null, reserved_micros = 0, spent_micros = spent_micros + ? where n = ?`,
    spentMicros,
    row.n,
  )
  tellEvalEvent(sql, now, 'attempt.retried', {
    ...attemptSubject(row),
    attempt: row.attempt + 1,
    reason,
  })
  setDeadline(sql, 'plan', now)
}

function outOfTime(sql: Sql, now: number): void {
  clearDeadline(sql, 'time')
  stopEvalRun(sql, now, 'stopped', "The run's time is over")
}

/** A refusal of what was asked for stays one. */
function mayPass(error: unknown): boolean {
  const code = errorCodeOf(error)
  return code === undefined || errorTable[code].retryable
}

const messageOf = (error: unknown): string =>
  error instanceof AppError || error instanceof Error ? error.message : String(error)
