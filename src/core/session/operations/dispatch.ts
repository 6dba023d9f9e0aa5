import { ownedId } from '../../../contract/ids.ts'
import { AppError } from '../../../contract/error.ts'
import { type Attempt, executors } from '../../../contract/operation.ts'
import { noExecutor } from '../../policy/isolation.ts'
import type { Sql } from '../../ports.ts'
import { mustHaveBudget } from '../budget/budget.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { startWaking } from '../generations/sandbox-start.ts'
import { mustApproval } from '../approvals/rows.ts'
import {
  dispatchAttempt,
  finaliseAttempt,
  mustBeReservedAttempt,
  reserveAttempt,
} from './attempts.ts'
import { addSpending } from '../budget/spending.ts'
import { type OperationRow, operationWork } from './rows.ts'
import { cannotRun } from './reports.ts'
import { hashText } from '../../hash.ts'

/** Inside a commit, like the others here: the next attempt exists before anything runs. */
export function reserveForDispatch(
  kernel: SessionKernel,
  sql: Sql,
  now: number,
  row: OperationRow,
): Attempt {
  return reserveAttempt(sql, now, {
    id: ownedId('att', kernel.session().id, kernel.ports.crypto.random(8)),
    operationId: row.id,
    runId: row.run_id,
    approvalId: row.approval_id,
    decisionSeq: row.decision_seq,
    pendingSeq: row.pending_seq,
    executor: operationWork(row).plan.strategy,
  })
}

export function dispatchNext(
  kernel: SessionKernel,
  sql: Sql,
  now: number,
  row: OperationRow,
): void {
  dispatchOperation(kernel, sql, now, reserveForDispatch(kernel, sql, now, row).id, row)
}

/** Into the sandbox's hands, once. Where nothing can carry it out the attempt has failed, and says why. */
export function dispatchOperation(
  kernel: SessionKernel,
  sql: Sql,
  now: number,
  attemptId: string,
  row: OperationRow,
): void {
  // First: one that is under way may have run, whatever has become of its sandbox.
  mustBeReservedAttempt(sql, attemptId)
  mustBeUnchanged(sql, row)
  const missing = missingExecutor(kernel, row)
  if (missing !== null) {
    finaliseAttempt(sql, now, attemptId, cannotRun(missing))
    return
  }
  mustHaveBudget(sql, now, 'execute the operation')
  // It sleeps: this is what it waits for.
  if (kernel.session().sandboxState === 'stopped') startWaking(sql, now)
  dispatchAttempt(sql, now, attemptId, operationWork(row))
  addSpending(sql, now, { toolCalls: 1 })
}

/** What was approved, or decided on, is what runs. */
function mustBeUnchanged(sql: Sql, row: OperationRow): void {
  const { approval_id: approvalId } = row
  const decided =
    approvalId === null ? row.operation_hash : mustApproval(sql, approvalId).operation_hash
  if (hashText(row.operation) === decided) return
  throw new AppError(
    'wrong_state',
    `Cannot execute operation "${row.id}": it has changed since, so its decision has lapsed`,
  )
}

function missingExecutor(kernel: SessionKernel, row: OperationRow): string | null {
  const { provider, sandboxState } = kernel.session()
  const { operation, plan } = operationWork(row)
  if (provider === 'none') return 'This session has no sandbox'
  if (sandboxState === 'failed' || sandboxState === 'lost') return `The sandbox is ${sandboxState}`
  if (plan.strategy === 'denied') return 'Its isolation plan denies it'
  return executors[plan.strategy].includes(operation.operation)
    ? null
    : noExecutor(operation.operation, plan.strategy)
}
