import { ownedId } from '../../../contract/ids.ts'
import { type KeyTable, madeByKey } from '../../actor/keys.ts'
import type { RoomOf } from '../../actor/room.ts'
import type { Written } from '../../actor/writes.ts'
import { Waiters } from '../../actor/waiters.ts'
import {
  judgeOperation,
  planOperation,
  type OperationVerdict,
  type StepOfAbility,
} from './judge.ts'
import type { SessionPolicy } from '../gate/policy.ts'
import { AppError } from '../../../contract/error.ts'
import type {
  Attempt,
  DiscardReport,
  ExecutionReport,
  IsolationPlan,
  MergeReport,
  Operation,
  OperationPreflight,
  OperationRecord,
  RetryEvaluation,
  RetryPolicy,
} from '../../../contract/operation.ts'
import type { CommandResult } from '../../../contract/link.ts'
import type { Sql } from '../../ports.ts'
import { storeArtifacts } from '../artifacts/rows.ts'
import type { SessionBudget } from '../budget/budget.ts'
import type { Caller } from '../record/caller.ts'
import type { Commands } from '../commands/commands.ts'
import {
  guardAttempt,
  guardEntry,
  guardSession,
  guardOpenSession,
  guardOwnSession,
} from '../record/guards.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { startWaking } from '../generations/sandbox-start.ts'
import { type ApprovalAsker, mustApproval } from '../approvals/rows.ts'
import {
  abandonAttempt,
  attemptsOfOperation,
  finaliseAttempt,
  loadAttempt,
  suspectAttempt,
} from './attempts.ts'
import { dispatchOperation, reserveForDispatch, dispatchNext } from './dispatch.ts'
import { operationMustFitLink, mustOperation, toOperation } from './rows.ts'
import { askerOf, type NewOperation, recordOperationDecision } from './decision.ts'
import { evaluateRetry } from './retry.ts'
import { mustOpenRun, recordOnRun, type RunRow } from '../runs/rows.ts'
import { beginWorktreeStep, type StepKind } from './worktrees.ts'

const operationKeys: KeyTable = { name: 'operation_keys', made: 'operation_id', what: 'operation' }

export interface OperationsApi {
  execute(
    caller: Caller,
    runId: string,
    operation: Operation,
    options: { evaluateOnly: boolean; idempotencyKey: string | null },
  ): Promise<OperationRecord>
  /** With a wait it answers once nothing moves any more. */
  get(caller: Caller, operationId: string, waitMs: number): Promise<OperationRecord>
  /** Decides nothing and writes nothing. */
  plan(caller: Caller, operation: Operation): Promise<IsolationPlan>
  /** What `execute` would decide now. Writes nothing. */
  preflight(caller: Caller, runId: string, operation: Operation): Promise<OperationPreflight>
  resume(caller: Caller, approvalId: string): Promise<OperationRecord>
  abandon(caller: Caller, attemptId: string, reason: string): Promise<Attempt>
  evaluateRetry(caller: Caller, operationId: string, policy: RetryPolicy): Promise<RetryEvaluation>
  admitRetry(caller: Caller, operationId: string, policy: RetryPolicy): Promise<Attempt>
  /** Runs an attempt that was admitted. */
  executeAttempt(caller: Caller, attemptId: string): Promise<OperationRecord>
  merge(caller: Caller, attemptId: string): Promise<MergeReport>
  /** Drops its branch: it cannot be merged any more. */
  discard(caller: Caller, attemptId: string): Promise<DiscardReport>
}

/**
 * Operations of the API: decided and recorded, then blocked, parked or executed. Each attempt is a row before the sandbox
 * is asked, and its result is stored in the commit that receives it: one operation has at most one effect, or its state
 * says that nobody knows. The link brings the results.
 */
export class Operations implements RoomOf<OperationsApi> {
  readonly api: OperationsApi = this
  readonly #kernel: SessionKernel
  readonly #commands: Commands
  readonly #policy: SessionPolicy
  readonly #budget: SessionBudget
  readonly #waiters = new Waiters()

  constructor(
    kernel: SessionKernel,
    commands: Commands,
    policy: SessionPolicy,
    budget: SessionBudget,
  ) {
    this.#kernel = kernel
    this.#commands = commands
    this.#policy = policy
    this.#budget = budget
  }

  async execute(
    caller: Caller,
    runId: string,
    sent: Operation,
    options: { evaluateOnly: boolean; idempotencyKey: string | null },
  ): Promise<OperationRecord> {
    await guardEntry(this.#kernel, caller)
    const operation = this.#kernel.redact(sent)
    operationMustFitLink(operation)
    if (operation.operation === 'revert-file')
      throw new AppError('unprocessable', 'A file is reverted by rejecting its changes', [
        { path: 'operation.operation', message: 'POST /v1/runs/:id/changes/reject' },
      ])
    const { evaluateOnly, idempotencyKey: key } = options
    const body = JSON.stringify([runId, evaluateOnly, operation])
    const fresh = this.#fresh(operation, evaluateOnly)
    const decided = await this.#budget.spend((sql, now) => {
      const known = madeByKey(sql, operationKeys, key, body)
      if (known !== null) return known
      guardOpenSession(guardSession(this.#kernel, caller))
      guardAttempt(this.#kernel, caller)
      if (key !== null) sql.run('insert into operation_keys values (?, ?, ?)', key, body, fresh.id)
      return this.#begin(sql, now, askerOf(caller), mustOpenRun(sql, runId), fresh)
    })
    await this.#kernel.crash('operation.decided')
    return this.#view(decided)
  }

  /** Inside a commit: what another room does by an operation, decided and recorded like any other. Gives its id. */
  readonly start = (
    sql: Sql,
    now: number,
    asker: ApprovalAsker,
    asked: { runId: string; operation: Operation; step?: StepOfAbility },
  ): string => {
    const run = mustOpenRun(sql, asked.runId)
    const { operation, step = null } = asked
    operationMustFitLink(operation)
    return this.#begin(sql, now, asker, run, this.#fresh(operation, false), step)
  }

  /** What would be decided about a step of an ability. Writes nothing. */
  readonly foresee = (operation: Operation, step: StepOfAbility): OperationVerdict => {
    const { sql, now } = this.#kernel.ports
    const run = { id: '', agent: null, subagent: null }
    return judgeOperation(this.#policy, sql, now(), { run, operation, operationId: '', step })
  }

  /** Inside a commit: what another room has started was approved, and runs now. */
  readonly startApproved = (sql: Sql, now: number, operationId: string): void => {
    if (attemptsOfOperation(sql, operationId).length === 0)
      dispatchNext(this.#kernel, sql, now, mustOperation(sql, operationId))
  }

  #fresh(operation: Operation, evaluateOnly: boolean): NewOperation {
    return {
      id: this.#newId('opr'),
      approvalId: this.#newId('apr'),
      operation,
      evaluateOnly,
    }
  }

  #begin(
    sql: Sql,
    now: number,
    asker: ApprovalAsker,
    run: RunRow,
    fresh: NewOperation,
    step: StepOfAbility | null = null,
  ): string {
    const { operation, id: operationId, evaluateOnly } = fresh
    const judged = { run, operation, operationId, step }
    const verdict = judgeOperation(this.#policy, sql, now, judged)
    const row = recordOperationDecision(sql, now, asker, run, fresh, verdict)
    if (!evaluateOnly && row.decision === 'allow') dispatchNext(this.#kernel, sql, now, row)
    return operationId
  }

  async plan(caller: Caller, operation: Operation): Promise<IsolationPlan> {
    guardSession(this.#kernel, caller)
    return planOperation(this.#policy, operation)
  }

  async preflight(caller: Caller, runId: string, sent: Operation): Promise<OperationPreflight> {
    await guardEntry(this.#kernel, caller)
    const operation = this.#kernel.redact(sent)
    operationMustFitLink(operation)
    const { sql, now } = this.#kernel.ports
    const run = mustOpenRun(sql, runId)
    const asked = { run, operation, operationId: this.#newId('opr') }
    const { record, plan } = judgeOperation(this.#policy, sql, now(), asked)
    const { decision, reason, rule } = record
    return { decision, reason, rule, plan }
  }

  /** Policy is not asked again: the approval is for these very bytes. */
  async resume(caller: Caller, approvalId: string): Promise<OperationRecord> {
    await guardEntry(this.#kernel, caller)
    const id = await this.#budget.spend((sql, now) => {
      guardOpenSession(guardSession(this.#kernel, caller))
      const approval = mustApproval(sql, approvalId)
      if (approval.kind !== 'operation' || approval.resumable === 0)
        throw cannotResume(approvalId, 'no operation waits for it')
      if (approval.state !== 'approved') throw cannotResume(approvalId, `it is ${approval.state}`)
      const row = mustOperation(sql, approval.subject)
      mustOpenRun(sql, row.run_id)
      const verdict = evaluateRetry('never', attemptsOfOperation(sql, row.id))
      if (!verdict.allowed) throw cannotResume(approvalId, verdict.reason)
      dispatchNext(this.#kernel, sql, now, row)
      return row.id
    })
    await this.#kernel.crash('attempt.reserved')
    return this.#view(id)
  }

  async get(caller: Caller, id: string, waitMs: number): Promise<OperationRecord> {
    guardSession(this.#kernel, caller)
    return this.#waiters.until(() => {
      const value = this.#view(id)
      const active = value.attempts.find(({ status }) => status === 'reserved')
      const isMoving = active?.dispatched === true && active.suspectSince === null
      return { value, done: waitMs === 0 || !isMoving }
    }, this.#kernel.ports.host.sleep(waitMs))
  }

  async abandon(caller: Caller, id: string, reason: string): Promise<Attempt> {
    await guardEntry(this.#kernel, caller)
    const kept = this.#kernel.hide(reason)
    return this.#kernel.commit((sql, now) =>
      abandonAttempt(sql, now, id, { actor: caller.keyId, reason: kept }),
    )
  }

  /** Reads only. */
  async evaluateRetry(caller: Caller, id: string, policy: RetryPolicy): Promise<RetryEvaluation> {
    guardSession(this.#kernel, caller)
    const { sql } = this.#kernel.ports
    return evaluateRetry(policy, attemptsOfOperation(sql, mustOperation(sql, id).id))
  }

  /** Reserves the next attempt, and runs nothing. */
  async admitRetry(caller: Caller, id: string, policy: RetryPolicy): Promise<Attempt> {
    guardOpenSession(await guardEntry(this.#kernel, caller))
    return this.#kernel.commit((sql, now) => {
      const row = mustOperation(sql, id)
      mustOpenRun(sql, row.run_id)
      const verdict = evaluateRetry(policy, attemptsOfOperation(sql, id))
      if (!verdict.allowed || verdict.latest === null)
        throw new AppError('wrong_state', `Cannot retry "${id}": ${verdict.reason}`)
      const attempt = reserveForDispatch(this.#kernel, sql, now, row)
      recordOnRun(sql, now, row.run_id, 'operation-execution', {
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
    await guardEntry(this.#kernel, caller)
    const operationId = await this.#budget.spend((sql, now) => {
      guardOpenSession(guardSession(this.#kernel, caller))
      guardAttempt(this.#kernel, caller)
      const attempt = loadAttempt(sql, id)
      mustOpenRun(sql, attempt.runId)
      dispatchOperation(this.#kernel, sql, now, id, mustOperation(sql, attempt.operationId))
      return attempt.operationId
    })
    return this.#view(operationId)
  }

  merge(caller: Caller, id: string): Promise<MergeReport> {
    return this.#step(caller, id, 'merge')
  }

  discard(caller: Caller, id: string): Promise<DiscardReport> {
    return this.#step(caller, id, 'discard')
  }

  /** Begun in one commit with its command; whether this request lives to hear the result does not matter. */
  async #step<K extends StepKind>(caller: Caller, id: string, kind: K): Promise<CommandResult<K>> {
    guardOpenSession(await guardEntry(this.#kernel, caller))
    guardAttempt(this.#kernel, caller)
    if (kind === 'discard') guardOwnSession(this.#kernel, caller, 'discard work of the session')
    const fresh = `${kind}_${this.#newId('cmd')}`
    const commandId = this.#kernel.commit((sql, now) => {
      const { generation, sandboxState } = guardSession(this.#kernel, caller)
      if (sandboxState === 'failed' || sandboxState === 'lost')
        throw new AppError('sandbox_unavailable', `Cannot ${kind}: the sandbox is ${sandboxState}`)
      const attempt = loadAttempt(sql, id)
      const step = { kind, commandId: fresh, generation, actor: caller.keyId }
      const begun = beginWorktreeStep(sql, now, attempt, step)
      // It sleeps: this is what it waits for.
      if (begun === fresh && sandboxState === 'stopped') startWaking(sql, now)
      return begun
    })
    return this.#commands.answer(kind, commandId)
  }

  /** The sandbox's result, inside the commit that stores it. */
  readonly finalise = (sql: Sql, now: number, attemptId: string, report: ExecutionReport): void => {
    const attempt = finaliseAttempt(sql, now, attemptId, report)
    if (!attempt || report.files.length === 0) return
    const { crypto } = this.#kernel.ports
    const files = report.files.map((file) => ({ ...file, id: `art_${crypto.random(20)}` }))
    // By attempt: the diff of a second one has the same path.
    storeArtifacts(sql, now, attempt.id, files)
    for (const { path, sha256, size, id } of files)
      recordOnRun(sql, now, attempt.runId, 'artifact.written', {
        artifactId: id,
        path,
        sha256,
        size,
        attemptId,
      })
  }

  readonly deadlines = {
    attempt: (attemptId: string) =>
      this.#kernel.commit((sql, now) => suspectAttempt(sql, now, attemptId, 'No result in time')),
  }

  readonly written = (tables: Written): void => {
    if (tables.has('attempts') || tables.has('operations')) this.#waiters.wake()
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
