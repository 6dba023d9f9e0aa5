import { AppError } from '../../contract/error.ts'
import type { EvalAttempt, EvalEvent, EvalRun } from '../../contract/eval-run.ts'
import type { EvalRunId, MemberId, OrganisationId } from '../../contract/ids.ts'
import { setDeadline } from '../actor/deadlines.ts'
import type { RoomOf } from '../actor/room.ts'
import { Waiters } from '../actor/waiters.ts'
import type { Written } from '../actor/writes.ts'
import type { TargetConditions } from '../evals/compare/conditions.ts'
import { maySeePlace } from '../registry/place.ts'
import type { Caller, Listed, Page } from '../session/record/caller.ts'
import { countEvalAttempts, listEvalAttempts } from './record/attempts.ts'
import { endEvalRun, projectEvalRun, stopEvalRun } from './attempts/run-end.ts'
import { lastEvalEventSeq, listEvalEvents, tellEvalEvent } from './record/events.ts'
import { targetConditions } from './record/conditions.ts'
import type { EvalRunKernel } from './record/kernel.ts'
import {
  insertEvalRunRecord,
  leftOutEvalCases,
  type LeftOutCase,
  type NewEvalRun,
  type EvalRunRecord,
  recordedEvalTargets,
} from './record/record.ts'

export interface EvalRunsApi {
  /** Once: the same plan again is the same run. */
  create(plan: NewEvalRun): Promise<EvalRun>
  view(caller: Caller): Promise<EvalRun>
  /** All of them, with their results as far as they have one. */
  attempts(caller: Caller, page: Page): Promise<Listed<EvalAttempt>>
  /** Which cases were planned for which target, in their order. */
  planned(caller: Caller): Promise<PlannedCase[]>
  /** Which cases of the suite the run was not to attempt. */
  leftOut(caller: Caller): Promise<LeftOutCase[]>
  /** What the results of a target depend on, beside its answers. Null: the run has no such target. */
  conditions(caller: Caller, target: string): Promise<TargetConditions | null>
  /** What follows number `after`; if nothing does, as soon as something does, or after `waitMs`. */
  events(caller: Caller, after: number, limit: number, waitMs: number): Promise<EvalEvent[]>
  cancel(caller: Caller, reason: string): Promise<EvalRun>
}

export interface PlannedCase {
  id: string
  target: string
  repetitions: number
  required: boolean
}

/**
 * The run as its callers see it: made once, shown, followed, cancelled. It promises that the same request makes one run and
 * that a cancel is final. Routes and the verbs of evals ask it; the attempts are another room's.
 */
export class Runs implements RoomOf<EvalRunsApi> {
  readonly api: EvalRunsApi = this
  readonly #kernel: EvalRunKernel
  readonly #waiters = new Waiters()

  constructor(kernel: EvalRunKernel) {
    this.#kernel = kernel
  }

  async create(plan: NewEvalRun): Promise<EvalRun> {
    if (!this.#kernel.created)
      this.#kernel.commit((sql, now) => {
        this.#kernel.createTables()
        insertEvalRunRecord(sql, now, plan)
        tellEvalEvent(sql, now, 'run.started', { attempts: plan.attempts.length })
        const { seconds } = plan.budget
        if (seconds !== undefined) setDeadline(sql, 'time', now + seconds * 1000)
        setDeadline(sql, 'plan', now)
        projectEvalRun(sql, now)
      })
    return this.view({ ...plan.caller })
  }

  async view(caller: Caller): Promise<EvalRun> {
    return viewRun(this.#kernel, ownEvalRun(this.#kernel, caller))
  }

  async attempts(caller: Caller, page: Page): Promise<Listed<EvalAttempt>> {
    ownEvalRun(this.#kernel, caller)
    const { sql } = this.#kernel.ports
    const items = listEvalAttempts(sql, page)
    const last = items.at(-1)?.n
    const { total } = countEvalAttempts(sql)
    return { items, next: last === undefined || last >= total ? null : last }
  }

  async planned(caller: Caller): Promise<PlannedCase[]> {
    ownEvalRun(this.#kernel, caller)
    return this.#kernel.ports.sql
      .all<Omit<PlannedCase, 'required'> & { required: number }>(
        `select case_id as id, target, count(*) as repetitions,
           (select coalesce(body ->> '$.required', 0) from cases where id = case_id) as required
         from attempts group by case_id, target order by min(n)`,
      )
      .map((row) => ({ ...row, required: row.required === 1 }))
  }

  async leftOut(caller: Caller): Promise<LeftOutCase[]> {
    ownEvalRun(this.#kernel, caller)
    return leftOutEvalCases(this.#kernel.ports.sql)
  }

  async conditions(caller: Caller, target: string): Promise<TargetConditions | null> {
    ownEvalRun(this.#kernel, caller)
    return targetConditions(this.#kernel.ports.sql, target)
  }

  events(caller: Caller, after: number, limit: number, waitMs: number): Promise<EvalEvent[]> {
    const { sql, host } = this.#kernel.ports
    const look = () => {
      const { endedAt } = ownEvalRun(this.#kernel, caller)
      const value = listEvalEvents(sql, after, limit)
      return { value, done: waitMs === 0 || value.length > 0 || endedAt !== null }
    }
    return this.#waiters.until(look, waitMs === 0 ? Promise.resolve() : host.sleep(waitMs))
  }

  async cancel(caller: Caller, reason: string): Promise<EvalRun> {
    const run = ownEvalRun(this.#kernel, caller)
    const isOwn = run.memberId === caller.memberId || caller.scopes?.includes('admin')
    if (!isOwn)
      throw new AppError(
        'forbidden',
        'Cannot cancel the run: another member has made it, ask an admin',
      )
    this.#kernel.commit((sql, now) => {
      stopEvalRun(sql, now, 'cancelled', reason || `Cancelled by ${caller.owner || caller.keyId}`)
      endEvalRun(sql, now, this.#kernel.ports.config.retentionMs)
    })
    return this.view(caller)
  }

  readonly written = (tables: Written): void => {
    if (tables.has('events') || tables.has('eval_run')) this.#waiters.wake()
  }
}

/** Another organisation's run, one outside of the key's limits, and one that is being erased, are not there. */
export function ownEvalRun(kernel: EvalRunKernel, caller: Caller): EvalRunRecord {
  const run = kernel.run()
  const isThere = run.organisationId === caller.organisationId && run.status !== 'erased'
  if (!isThere || !maySeePlace(caller, run)) throw new AppError('not_found', 'No such eval run')
  return run
}

function viewRun({ ports: { sql } }: EvalRunKernel, run: EvalRunRecord): EvalRun {
  const counted = countEvalAttempts(sql)
  const { total, pending, done, passed, errors, score, spentMicros } = counted
  return {
    id: run.id as EvalRunId,
    organisationId: run.organisationId as OrganisationId,
    memberId: run.memberId as MemberId | null,
    project: run.project,
    dataset: run.dataset,
    digest: run.digest,
    targets: recordedEvalTargets(sql),
    status: run.status as EvalRun['status'],
    reason: run.reason,
    attempts: total,
    passed,
    errors,
    score,
    hash: run.hash,
    createdAt: run.createdAt,
    endedAt: run.endedAt,
    problems: run.problems,
    pending,
    running: total - pending - done,
    done,
    costUsd: spentMicros / 1_000_000,
    workers: run.workers,
    budget: run.budget,
    lastEventSeq: lastEvalEventSeq(sql),
  }
}
