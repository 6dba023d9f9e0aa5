import { AppError } from '../../contract/error.ts'
import type {
  Attempt,
  DiscardReport,
  ExecutionReport,
  IsolationPlan,
  MergeReport,
  Operation,
  OperationRecord,
  RetryEvaluation,
  RetryPolicy,
} from '../../contract/operation.ts'
import type { Sql } from '../ports.ts'
import { storeArtifacts } from '../sessions/artifacts.ts'
import type { BudgetDesk } from '../sessions/budget-desk.ts'
import type { Caller } from '../sessions/caller.ts'
import type { CommandDesk } from '../sessions/command-desk.ts'
import { enterAndOpen, callerSession, mustBeOpen } from '../sessions/doors.ts'
import type { Kernel } from '../sessions/kernel.ts'
import type { OperationApi } from './api.ts'
import { mustApproval } from './approvals.ts'
import {
  abandonAttempt,
  attemptsOf,
  finaliseAttempt,
  loadAttempt,
  suspectAttempt,
} from './attempts.ts'
import { dispatch, reserveNext, startAttempt } from './dispatch.ts'
import { mustFitLink, mustOperation, toOperation } from './operations.ts'
import { type OperationVerdict, recordDecision } from './operation-decision.ts'
import { evaluateRetry } from './retry.ts'
import { mustOpenRun, ownedId, record, type RunRow } from './run.ts'

/** What the policy and the sandbox's means say of an operation. */
export interface OperationJudge {
  judge(sql: Sql, now: number, run: RunRow, operation: Operation, id: string): OperationVerdict
  plan(operation: Operation): IsolationPlan
}

/** Operations of the API: decided and recorded, then blocked, parked or executed. */
export class OperationDesk implements OperationApi {
  readonly #kernel: Kernel
  readonly #commands: CommandDesk
  readonly #judge: OperationJudge
  readonly #budget: BudgetDesk
  readonly #waiting = new Set<() => void>()

  constructor(kernel: Kernel, commands: CommandDesk, judge: OperationJudge, budget: BudgetDesk) {
    this.#kernel = kernel
    this.#commands = commands
    this.#judge = judge
    this.#budget = budget
  }

  async executeOperation(
    caller: Caller,
    runId: string,
    sent: Operation,
    options: { evaluateOnly: boolean; idempotencyKey: string | null },
  ): Promise<OperationRecord> {
    await enterAndOpen(this.#kernel, caller)
    const operation = this.#kernel.redact(sent)
    mustFitLink(operation)
    const { evaluateOnly, idempotencyKey: key } = options
    const body = JSON.stringify([runId, evaluateOnly, operation])
    const fresh = {
      id: this.#newId('opr'),
      approvalId: this.#newId('apr'),
      operation,
      evaluateOnly,
    }
    const decided = await this.#budget.spend((sql, now) => {
      const known = key === null ? null : findKey(sql, key, body)
      if (known !== null) return known
      mustBeOpen(callerSession(this.#kernel, caller))
      if (key !== null) sql.run('insert into operation_keys values (?, ?, ?)', key, body, fresh.id)
      const run = mustOpenRun(sql, runId)
      const verdict = this.#judge.judge(sql, now, run, operation, fresh.id)
      const row = recordDecision(sql, now, caller, run, fresh, verdict)
      if (!evaluateOnly && row.decision === 'allow') startAttempt(this.#kernel, sql, now, row)
      return fresh.id
    })
    await this.#kernel.crash('operation.decided')
    return this.#view(decided)
  }

  async planOperation(caller: Caller, operation: Operation): Promise<IsolationPlan> {
    callerSession(this.#kernel, caller)
    return this.#judge.plan(operation)
  }

  /** Policy is not asked again: the approval is for these very bytes. */
  async resumeApproval(caller: Caller, approvalId: string): Promise<OperationRecord> {
    await enterAndOpen(this.#kernel, caller)
    const id = await this.#budget.spend((sql, now) => {
      mustBeOpen(callerSession(this.#kernel, caller))
      const approval = mustApproval(sql, approvalId)
      if (approval.kind !== 'operation' || approval.resumable === 0)
        throw cannotResume(approvalId, 'no operation waits for it')
      if (approval.state !== 'approved') throw cannotResume(approvalId, `it is ${approval.state}`)
      const row = mustOperation(sql, approval.subject)
      mustOpenRun(sql, row.run_id)
      const verdict = evaluateRetry('never', attemptsOf(sql, row.id))
      if (!verdict.allowed) throw cannotResume(approvalId, verdict.reason)
      startAttempt(this.#kernel, sql, now, row)
      return row.id
    })
    await this.#kernel.crash('attempt.reserved')
    return this.#view(id)
  }

  async operation(caller: Caller, id: string, waitMs: number): Promise<OperationRecord> {
    callerSession(this.#kernel, caller)
    let timedOut = false
    const timeout = this.#kernel.ports.host.sleep(waitMs).then(() => {
      timedOut = true
    })
    for (;;) {
      const found = this.#view(id)
      const active = found.attempts.find(({ status }) => status === 'reserved')
      const moving = active?.dispatched === true && active.suspectSince === null
      if (timedOut || waitMs === 0 || !moving) return found
      let wake = () => {}
      const changed = new Promise<void>((resolve) => (wake = resolve))
      this.#waiting.add(wake)
      await Promise.race([changed, timeout])
      this.#waiting.delete(wake)
    }
  }

  async abandonAttempt(caller: Caller, id: string, reason: string): Promise<Attempt> {
    await enterAndOpen(this.#kernel, caller)
    const kept = this.#kernel.redact(reason)
    const attempt = this.#kernel.commit((sql, now) =>
      abandonAttempt(sql, now, id, { actor: caller.keyId, reason: kept }),
    )
    this.wake()
    return attempt
  }

  /** Reads only. */
  async evaluateRetry(caller: Caller, id: string, policy: RetryPolicy): Promise<RetryEvaluation> {
    callerSession(this.#kernel, caller)
    const { sql } = this.#kernel.ports
    return evaluateRetry(policy, attemptsOf(sql, mustOperation(sql, id).id))
  }

  /** Reserves the next attempt, and runs nothing. */
  async admitRetry(caller: Caller, id: string, policy: RetryPolicy): Promise<Attempt> {
    mustBeOpen(await enterAndOpen(this.#kernel, caller))
    return this.#kernel.commit((sql, now) => {
      const row = mustOperation(sql, id)
      mustOpenRun(sql, row.run_id)
      const verdict = evaluateRetry(policy, attemptsOf(sql, id))
      if (!verdict.allowed || verdict.latest === null)
        throw new AppError('wrong_state', `Cannot retry "${id}": ${verdict.reason}`)
      const attempt = reserveNext(this.#kernel, sql, now, row)
      record(sql, now, row.run_id, 'operation-execution', {
        operationId: id,
        attemptId: attempt.id,
        approvalId: row.approval_id,
        status: 'reserved',
        retryPolicy: policy,
        retryAdmission: true,
        executorInvoked: false,
        operationExecuted: false,
      })
      return attempt
    })
  }

  async executeAttempt(caller: Caller, id: string): Promise<OperationRecord> {
    await enterAndOpen(this.#kernel, caller)
    const operationId = await this.#budget.spend((sql, now) => {
      mustBeOpen(callerSession(this.#kernel, caller))
      const attempt = loadAttempt(sql, id)
      mustOpenRun(sql, attempt.runId)
      dispatch(this.#kernel, sql, now, id, mustOperation(sql, attempt.operationId))
      return attempt.operationId
    })
    return this.#view(operationId)
  }

  async mergeAttempt(caller: Caller, id: string): Promise<MergeReport> {
    const { attempt, body } = await this.#branchOf(caller, id, 'merge')
    const merged = await this.#commands.ask('merge', `merge_${this.#newId('cmd')}`, body)
    this.#recordStep(caller, attempt, merged.merged ? 'merged' : 'not-merged', merged)
    return merged
  }

  async discardAttempt(caller: Caller, id: string): Promise<DiscardReport> {
    const { attempt, body } = await this.#branchOf(caller, id, 'discard')
    const dropped = await this.#commands.ask('discard', `discard_${this.#newId('cmd')}`, body)
    this.#recordStep(caller, attempt, 'discarded', dropped)
    return dropped
  }

  async #branchOf(caller: Caller, id: string, verb: string) {
    mustBeOpen(await enterAndOpen(this.#kernel, caller))
    const attempt = loadAttempt(this.#kernel.ports.sql, id)
    const branch = attempt.report?.branch
    if (attempt.status !== 'succeeded' || !branch)
      throw new AppError('wrong_state', `Attempt "${id}" has nothing to ${verb}`)
    return { attempt, body: { attemptId: attempt.id, branch } }
  }

  #recordStep(caller: Caller, attempt: Attempt, status: string, outcome: object): void {
    const { id: attemptId, operationId, runId } = attempt
    const told = { operationId, attemptId, status, ...outcome, actor: caller.keyId }
    this.#kernel.commit((sql, now) => record(sql, now, runId, 'operation-execution', told))
  }

  /** The sandbox's result, inside the commit that stores it. */
  finalise(sql: Sql, now: number, attemptId: string, report: ExecutionReport): void {
    const attempt = finaliseAttempt(sql, now, attemptId, report)
    if (!attempt || report.files.length === 0) return
    const { crypto } = this.#kernel.ports
    const files = report.files.map((file) => ({ ...file, id: `art_${crypto.random(20)}` }))
    // By attempt: the diff of a second one has the same path.
    storeArtifacts(sql, now, attempt.id, files)
    for (const { path, sha256, id } of files)
      record(sql, now, attempt.runId, 'artifact.written', {
        artifactId: id,
        path,
        sha256,
        attemptId,
      })
  }

  onDeadline(attemptId: string): void {
    this.#kernel.commit((sql, now) => suspectAttempt(sql, now, attemptId, 'No result in time'))
    this.wake()
  }

  /** Attempts may have ended: whoever waits for one looks again. */
  wake(): void {
    for (const wake of this.#waiting) wake()
  }

  #view(id: string): OperationRecord {
    const { sql } = this.#kernel.ports
    return toOperation(sql, mustOperation(sql, id))
  }

  #newId(prefix: string): string {
    return ownedId(prefix, this.#kernel.session().id, this.#kernel.ports.crypto.random(8))
  }
}

const cannotResume = (id: string, why: string) =>
  new AppError('wrong_state', `Cannot resume approval "${id}": ${why}`)

function findKey(sql: Sql, key: string, body: string): string | null {
  const row = sql.all<{ body: string; operation_id: string }>(
    'select body, operation_id from operation_keys where key = ?',
    key,
  )[0]
  if (!row) return null
  if (row.body === body) return row.operation_id
  throw new AppError('key_conflict', `Idempotency-Key "${key}" was used with another operation`)
}
