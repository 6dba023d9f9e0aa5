import { ownedId } from '../../../contract/ids.ts'
import type { Answer } from '../../../contract/ask.ts'
import type { Approval } from '../../../contract/approval.ts'
import type { Attempt } from '../../../contract/operation.ts'
import type { EvidenceSummary } from '../../../contract/run.ts'
import { isByteLengthOver } from '../../../contract/byte-length.ts'
import { AppError } from '../../../contract/error.ts'
import {
  type Checkpoint,
  type CheckpointCreate,
  maxRunEventBytes,
  type Run,
  type RunEnd,
  type RunChange,
  type RunCreate,
  type RunEvent,
  type RunEventAdd,
  type RunFinish,
  type TimelineCheck,
} from '../../../contract/run.ts'
import type { RoomOf } from '../../actor/room.ts'
import type { Sql } from '../../ports.ts'
import type { Caller, Page } from '../record/caller.ts'
import { guardEntry, guardSession, guardOpenSession } from '../record/guards.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { type KeyTable, madeByKey, onceByKey } from '../../actor/keys.ts'
import {
  addCheckpoint,
  listCheckpoints,
  loadCheckpoint,
  resumeFromCheckpoint,
} from './checkpoints.ts'
import { summarizeRunEvidence } from './evidence.ts'
import {
  changeRun,
  insertRun,
  listRuns,
  mustOpenRun,
  mustRun,
  open,
  projectRun,
  recordOnRun,
  type RunRow,
  toRun,
  waitsOf,
} from './rows.ts'
import {
  lastOfTimeline,
  listTimeline,
  timelineLength,
  type TimelineRow,
  timelineRows,
} from './timeline.ts'
import { hasEnded, wrongTransition } from './transitions.ts'
import { type RecordedHead, TimelineChecker } from './verify.ts'

const shownEvents = 200

const runKeys: KeyTable = { name: 'run_keys', made: 'run_id', what: 'run' }

export interface RunsApi {
  create(caller: Caller, input: RunCreate, idempotencyKey: string | null): Promise<Run>
  list(caller: Caller, page: Page): Promise<{ items: Run[]; next: number | null }>
  get(caller: Caller, runId: string): Promise<RunRecord>
  events(
    caller: Caller,
    runId: string,
    page: Page,
  ): Promise<{ items: RunEvent[]; next: number | null }>
  change(caller: Caller, runId: string, change: RunChange): Promise<Run>
  /** Cancelling also aborts its turn and answers what is open. */
  finish(caller: Caller, runId: string, finish: RunFinish): Promise<Run>
  addEvent(
    caller: Caller,
    runId: string,
    event: RunEventAdd,
    idempotencyKey?: string | null,
  ): Promise<RunEvent>
  addCheckpoint(
    caller: Caller,
    runId: string,
    checkpoint: CheckpointCreate,
    idempotencyKey?: string | null,
  ): Promise<Checkpoint>
  resume(
    caller: Caller,
    runId: string,
    checkpointId: string | null,
    idempotencyKey?: string | null,
  ): Promise<{ run: Run; checkpoint: Checkpoint }>
  /** Entries as they are stored, after `after`: as many as fit. None: it ends there. */
  stored(caller: Caller, runId: string, after: number): Promise<TimelineRow[]>
  /** Compares the timeline with itself and with its signed head in the ledger. */
  verify(caller: Caller, runId: string): Promise<TimelineCheck>
}

export interface RunRecord {
  run: Run
  /** The newest, in order. Of each list as much as fits into one answer. */
  events: RunEvent[]
  checkpoints: Checkpoint[]
  approvals: Approval[]
  attempts: Attempt[]
  evidence: EvidenceSummary
}

/** What a run's record shows of other rooms, and what goes with its begin and its end. */
interface RunNeighbours {
  approvals(sql: Sql, runId: string): Approval[]
  attempts(sql: Sql, runId: string): Attempt[]
  /** A run that begins with nothing left to use waits from the start. */
  followBudget(sql: Sql, now: number): void
  /** Ends the run with all that is under way in it. */
  stop(sql: Sql, now: number, generation: number, runId: string, end: RunClose): Answer[]
}

/** How a run is to end, and who ends it. */
export interface RunClose {
  status: RunEnd
  reason: string | null
  actor: string
  owner: string | null
}

/**
 * Runs as their callers see them: their timelines, checkpoints and ends. A run that has ended stays as it is. The routes
 * of runs ask it, and rooms that end one.
 */
export class Runs implements RoomOf<RunsApi> {
  readonly api: RunsApi = this
  readonly #kernel: SessionKernel
  readonly #neighbours: RunNeighbours

  constructor(kernel: SessionKernel, neighbours: RunNeighbours) {
    this.#kernel = kernel
    this.#neighbours = neighbours
  }

  async create(caller: Caller, sent: RunCreate, key: string | null): Promise<Run> {
    await guardEntry(this.#kernel, caller)
    const input = this.#kernel.redact(sent)
    const fresh = this.#newId('run')
    return this.#kernel.commit((sql, now) => {
      const body = JSON.stringify(input)
      const known = madeByKey(sql, runKeys, key, body)
      if (known !== null) return toRun(sql, mustRun(sql, known))
      guardOpenSession(this.#kernel.session())
      mustHaveRoom(sql)
      insertRun(sql, now, fresh, { ...input, implicit: false })
      // With nothing left to use it waits from the start.
      this.#neighbours.followBudget(sql, now)
      if (key !== null) sql.run('insert into run_keys values (?, ?, ?)', key, body, fresh)
      return toRun(sql, mustRun(sql, fresh))
    })
  }

  async list(caller: Caller, page: Page): Promise<{ items: Run[]; next: number | null }> {
    guardSession(this.#kernel, caller)
    return listRuns(this.#kernel.ports.sql, page)
  }

  async get(caller: Caller, runId: string): Promise<RunRecord> {
    guardSession(this.#kernel, caller)
    const { sql } = this.#kernel.ports
    return {
      run: toRun(sql, mustRun(sql, runId)),
      events: lastOfTimeline(sql, runId, shownEvents),
      checkpoints: listCheckpoints(sql, runId),
      approvals: this.#neighbours.approvals(sql, runId),
      attempts: this.#neighbours.attempts(sql, runId),
      evidence: summarizeRunEvidence(sql, runId),
    }
  }

  async events(caller: Caller, runId: string, page: Page) {
    guardSession(this.#kernel, caller)
    const { sql } = this.#kernel.ports
    const items = listTimeline(sql, mustRun(sql, runId).id, page.after ?? 0, page.limit)
    const last = items.at(-1)?.seq
    const isMore = last !== undefined && last < timelineLength(sql, runId)
    return { items, next: isMore ? last : null }
  }

  async change(caller: Caller, runId: string, sent: RunChange): Promise<Run> {
    await guardEntry(this.#kernel, caller)
    const { status, phase, reason } = this.#kernel.hide(sent)
    return this.#kernel.commit((sql, now) => {
      const run = mustRun(sql, runId)
      if (hasEnded(run.status)) throw wrongTransition(run, status)
      if (phase !== undefined) {
        if (run.phase !== null && run.phase !== phase)
          recordOnRun(sql, now, runId, 'phase.stopped', { phase: run.phase })
        if (run.phase !== phase) recordOnRun(sql, now, runId, 'phase.started', { phase })
        sql.run('update runs set phase = ?, updated_at = ? where n = ?', phase, now, run.n)
      }
      const cause = status === 'planned' ? 'plan' : 'start'
      if (run.status !== status && !changeRun(sql, now, runId, cause, reason || null))
        throw wrongTransition(run, status, whyNot(run))
      projectRun(sql, now, runId)
      return toRun(sql, mustRun(sql, runId))
    })
  }

  async finish(caller: Caller, runId: string, sent: RunFinish): Promise<Run> {
    await guardEntry(this.#kernel, caller)
    const { status, outcome = status, reason } = this.#kernel.hide(sent)
    if (outcome !== status)
      throw new AppError('unprocessable', `The outcome must be "${status}", as the status is`, [
        { path: 'outcome', message: `Expected "${status}"` },
      ])
    return this.#kernel.commit((sql, now) => {
      const before = mustRun(sql, runId)
      if (hasEnded(before.status)) throw wrongTransition(before, status)
      if (status === 'completed') mustHaveNoTurns(sql, before)
      const { keyId: actor, owner } = caller
      const why = reason || `Finished by ${owner || actor}`
      const { generation } = this.#kernel.session()
      const end = { status, reason: why, actor, owner }
      this.#kernel.answer(this.#neighbours.stop(sql, now, generation, runId, end))
      return toRun(sql, mustRun(sql, runId))
    })
  }

  async addEvent(
    caller: Caller,
    runId: string,
    sent: RunEventAdd,
    key: string | null = null,
  ): Promise<RunEvent> {
    await guardEntry(this.#kernel, caller)
    const { kind, data } = this.#kernel.hide(sent)
    if (isByteLengthOver(JSON.stringify(data), maxRunEventBytes))
      throw new AppError('too_large', 'An entry has at most 64 KiB of JSON', [
        { path: 'data', message: 'Too large' },
      ])
    return this.#kernel.commit((sql, now) => {
      const made = onceByKey(sql, now, { scope: 'run.event', key, body: [runId, sent] }, () => {
        mustOpenRun(sql, runId)
        return String(recordOnRun(sql, now, runId, kind, { ...data, by: caller.keyId }))
      })
      return listTimeline(sql, mustRun(sql, runId).id, Number(made) - 1, 1)[0] as RunEvent
    })
  }

  async addCheckpoint(
    caller: Caller,
    runId: string,
    sent: CheckpointCreate,
    key: string | null = null,
  ): Promise<Checkpoint> {
    await guardEntry(this.#kernel, caller)
    const checkpoint = this.#kernel.redact(sent)
    const fresh = this.#newId('chk')
    return this.#kernel.commit((sql, now) => {
      const request = { scope: 'run.checkpoint', key, body: [runId, sent] }
      const id = onceByKey(sql, now, request, () => {
        addCheckpoint(sql, now, runId, fresh, checkpoint)
        return fresh
      })
      return loadCheckpoint(sql, runId, id)
    })
  }

  async resume(
    caller: Caller,
    runId: string,
    checkpointId: string | null,
    key: string | null = null,
  ) {
    await guardEntry(this.#kernel, caller)
    return this.#kernel.commit((sql, now) => {
      const request = { scope: 'run.resume', key, body: [runId, checkpointId] }
      const id = onceByKey(sql, now, request, () =>
        resumeFromCheckpoint(sql, now, runId, checkpointId),
      )
      return { run: toRun(sql, mustRun(sql, runId)), checkpoint: loadCheckpoint(sql, runId, id) }
    })
  }

  async stored(caller: Caller, runId: string, after: number): Promise<TimelineRow[]> {
    guardSession(this.#kernel, caller)
    const { sql } = this.#kernel.ports
    mustRun(sql, runId)
    return timelineRows(sql, runId, after, timelineLength(sql, runId))
  }

  async verify(caller: Caller, runId: string): Promise<TimelineCheck> {
    guardSession(this.#kernel, caller)
    const { ports } = this.#kernel
    const { sql } = ports
    mustRun(sql, runId)
    const [head] = await ports.db().all<RecordedHead>(
      `select seq, hash, signature, at from run_events
       where run_id = ? and organisation_id = ? order by seq desc limit 1`,
      runId,
      caller.organisationId,
    )
    const checker = new TimelineChecker(runId, head ?? null)
    await this.#readTimeline(runId, (row) => checker.add(row))
    return checker.result((text, signature) => ports.crypto.isSigned(text, signature))
  }

  /** Up to where it ends now. Between pages others have their turn, and the session may be deleted. */
  async #readTimeline(runId: string, read: (row: TimelineRow) => void): Promise<void> {
    const { sql, host } = this.#kernel.ports
    const last = timelineLength(sql, runId)
    for (let rows = timelineRows(sql, runId, 0, last); rows.length > 0;) {
      rows.forEach(read)
      await host.sleep(0)
      this.#kernel.session()
      rows = timelineRows(sql, runId, rows.at(-1)?.seq ?? last, last)
    }
  }

  #newId(prefix: string): string {
    return ownedId(prefix, this.#kernel.session().id, this.#kernel.ports.crypto.random(8))
  }
}

/** Closing the session ends all of them in one commit. */
const maxOpenRuns = 1000

function mustHaveRoom(sql: Sql): void {
  const [row] = sql.all<{ count: number }>(`select count(*) as count from runs where ${open}`)
  if ((row?.count ?? 0) < maxOpenRuns) return
  throw new AppError(
    'wrong_state',
    `Cannot create a run: the session has ${maxOpenRuns} open ones. Finish some, or use another session`,
  )
}

function mustHaveNoTurns(sql: Sql, run: RunRow): void {
  const [turn] = sql.all<{ id: string; state: string }>(
    `select id, state from turns where run_id = ? and state in ('queued', 'running') limit 1`,
    run.id,
  )
  if (turn) throw wrongTransition(run, 'completed', `turn "${turn.id}" is ${turn.state}`)
}

function whyNot(run: RunRow): string {
  const waits = waitsOf(run).map(({ what }) => what)
  if (waits.length === 0) return `it is ${run.status}`
  return `it is ${run.status} and goes on by itself after ${waits.join(', ')}`
}
