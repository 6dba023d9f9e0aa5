import { isLongerThan } from '../../contract/canonical.ts'
import { AppError } from '../../contract/error.ts'
import {
  type Checkpoint,
  type CheckpointCreate,
  maxRunEventBytes,
  type Run,
  type RunChange,
  type RunCreate,
  type RunEvent,
  type RunEventAdd,
  type RunFinish,
  type TimelineCheck,
} from '../../contract/run.ts'
import type { Sql } from '../ports.ts'
import type { Caller, Page } from '../sessions/caller.ts'
import { enterAndOpen, callerSession, mustBeOpen } from '../sessions/doors.ts'
import type { Kernel } from '../sessions/kernel.ts'
import { stopRun } from '../sessions/stop-run.ts'
import type { RunApi, RunRecord } from './api.ts'
import { listApprovals } from './approvals.ts'
import { attemptsOfRun } from './attempts.ts'
import { followBudget } from './budget.ts'
import { addCheckpoint, listCheckpoints, resumeFrom } from './checkpoints.ts'
import { summarizeEvidence } from './evidence.ts'
import {
  changeRun,
  createRun,
  listRuns,
  mustOpenRun,
  mustRun,
  ownedId,
  projectRun,
  record,
  toRun,
} from './run.ts'
import { lastRunEvents, listRunEvents, timelineRows } from './timeline.ts'
import { checkTimeline, type RecordedHead } from './verify.ts'

const shownEvents = 200

/** Runs as their callers see them. */
export class RunDesk implements RunApi {
  readonly #kernel: Kernel
  /** Turns may have ended. */
  readonly #onTurnsChanged: () => void

  constructor(kernel: Kernel, onTurnsChanged: () => void) {
    this.#kernel = kernel
    this.#onTurnsChanged = onTurnsChanged
  }

  async createRun(caller: Caller, sent: RunCreate, key: string | null): Promise<Run> {
    await enterAndOpen(this.#kernel, caller)
    const input = this.#kernel.redact(sent)
    const fresh = this.#newId('run')
    return this.#kernel.commit((sql, now) => {
      const body = JSON.stringify(input)
      const known = key === null ? null : findKey(sql, key, body)
      if (known !== null) return toRun(sql, mustRun(sql, known))
      mustBeOpen(this.#kernel.session())
      createRun(sql, now, fresh, { ...input, implicit: false })
      // With nothing left to use it waits from the start.
      followBudget(sql, now)
      if (key !== null) sql.run('insert into run_keys values (?, ?, ?)', key, body, fresh)
      return toRun(sql, mustRun(sql, fresh))
    })
  }

  async runs(caller: Caller, page: Page): Promise<{ items: Run[]; next: number | null }> {
    callerSession(this.#kernel, caller)
    return listRuns(this.#kernel.ports.sql, page)
  }

  async run(caller: Caller, runId: string): Promise<RunRecord> {
    callerSession(this.#kernel, caller)
    const { sql } = this.#kernel.ports
    return {
      run: toRun(sql, mustRun(sql, runId)),
      events: lastRunEvents(sql, runId, shownEvents),
      checkpoints: listCheckpoints(sql, runId),
      approvals: listApprovals(sql, runId),
      attempts: attemptsOfRun(sql, runId),
      evidence: summarizeEvidence(sql, runId),
    }
  }

  async runEvents(caller: Caller, runId: string, page: Page) {
    callerSession(this.#kernel, caller)
    const { sql } = this.#kernel.ports
    const items = listRunEvents(sql, mustRun(sql, runId).id, page.after ?? 0, page.limit)
    const last = items.at(-1)?.seq
    const isMore = last !== undefined && last < timelineLength(sql, runId)
    return { items, next: isMore ? last : null }
  }

  async changeRun(caller: Caller, runId: string, sent: RunChange): Promise<Run> {
    await enterAndOpen(this.#kernel, caller)
    const { status, phase, reason } = this.#kernel.redact(sent)
    return this.#kernel.commit((sql, now) => {
      const run = mustOpenRun(sql, runId)
      if (phase !== undefined) {
        if (run.phase !== null && run.phase !== phase)
          record(sql, now, runId, 'phase.stopped', { phase: run.phase })
        if (run.phase !== phase) record(sql, now, runId, 'phase.started', { phase })
        sql.run('update runs set phase = ?, updated_at = ? where n = ?', phase, now, run.n)
      }
      const cause = status === 'planned' ? 'plan' : 'start'
      if (run.status !== status && !changeRun(sql, now, runId, cause, reason || null))
        throw new AppError(
          'wrong_state',
          `Cannot make run "${runId}" ${status}: it is ${run.status}`,
        )
      projectRun(sql, now, runId)
      return toRun(sql, mustRun(sql, runId))
    })
  }

  async finishRun(caller: Caller, runId: string, sent: RunFinish): Promise<Run> {
    await enterAndOpen(this.#kernel, caller)
    const { status, outcome = status, reason } = this.#kernel.redact(sent)
    if (outcome !== status)
      throw new AppError('unprocessable', `The outcome must be "${status}", as the status is`, [
        { path: 'outcome', message: `Expected "${status}"` },
      ])
    const run = this.#kernel.commit((sql, now) => {
      mustOpenRun(sql, runId)
      if (status === 'completed') mustHaveNoTurns(sql, runId)
      const { keyId: actor, owner } = caller
      const why = reason || `Finished by ${owner || actor}`
      const { generation } = this.#kernel.session()
      const end = { status, reason: why, actor, owner }
      this.#kernel.answer(stopRun(sql, now, generation, runId, end))
      return toRun(sql, mustRun(sql, runId))
    })
    this.#onTurnsChanged()
    return run
  }

  async addRunEvent(caller: Caller, runId: string, sent: RunEventAdd): Promise<RunEvent> {
    await enterAndOpen(this.#kernel, caller)
    const { kind, data } = this.#kernel.redact(sent)
    if (isLongerThan(JSON.stringify(data), maxRunEventBytes))
      throw new AppError('too_large', 'An entry has at most 64 KiB of JSON', [
        { path: 'data', message: 'Too large' },
      ])
    return this.#kernel.commit((sql, now) => {
      mustOpenRun(sql, runId)
      const seq = record(sql, now, runId, kind, { ...data, by: caller.keyId })
      return listRunEvents(sql, runId, seq - 1, 1)[0] as RunEvent
    })
  }

  async addCheckpoint(caller: Caller, runId: string, sent: CheckpointCreate): Promise<Checkpoint> {
    await enterAndOpen(this.#kernel, caller)
    const checkpoint = this.#kernel.redact(sent)
    const id = this.#newId('chk')
    return this.#kernel.commit((sql, now) => addCheckpoint(sql, now, runId, id, checkpoint))
  }

  async resumeRun(caller: Caller, runId: string, checkpointId: string | null) {
    await enterAndOpen(this.#kernel, caller)
    return this.#kernel.commit((sql, now) => resumeFrom(sql, now, runId, checkpointId))
  }

  async verifyRun(caller: Caller, runId: string): Promise<TimelineCheck> {
    callerSession(this.#kernel, caller)
    const { ports } = this.#kernel
    const { sql } = ports
    mustRun(sql, runId)
    const [head] = await ports.db().all<RecordedHead>(
      `select seq, hash, signature, at from run_events
       where run_id = ? and organisation_id = ? order by seq desc limit 1`,
      runId,
      caller.organisationId,
    )
    const rows = timelineRows(sql, runId)
    return checkTimeline(runId, rows, head ?? null, (text, signature) =>
      ports.crypto.isSigned(text, signature),
    )
  }

  #newId(prefix: string): string {
    return ownedId(prefix, this.#kernel.session().id, this.#kernel.ports.crypto.random(8))
  }
}

function mustHaveNoTurns(sql: Sql, runId: string): void {
  const [turn] = sql.all<{ id: string; state: string }>(
    `select id, state from turns where run_id = ? and state in ('queued', 'running') limit 1`,
    runId,
  )
  if (!turn) return
  const why = `turn "${turn.id}" is ${turn.state}`
  throw new AppError('wrong_state', `Cannot complete run "${runId}": ${why}`)
}

function timelineLength(sql: Sql, runId: string): number {
  return (
    sql.all<{ seq: number | null }>(
      'select max(seq) as seq from run_events where run_id = ?',
      runId,
    )[0]?.seq ?? 0
  )
}

function findKey(sql: Sql, key: string, body: string): string | null {
  const row = sql.all<{ body: string; run_id: string }>(
    'select body, run_id from run_keys where key = ?',
    key,
  )[0]
  if (!row) return null
  if (row.body === body) return row.run_id
  throw new AppError('key_conflict', `Idempotency-Key "${key}" was used with another run`)
}
