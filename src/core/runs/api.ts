import type { Approval, ApprovalResolve, ApprovalRevoke } from '../../contract/approval.ts'
import type {
  Attempt,
  DiscardReport,
  IsolationPlan,
  MergeReport,
  Operation,
  OperationRecord,
  RetryEvaluation,
  RetryPolicy,
} from '../../contract/operation.ts'
import type {
  Checkpoint,
  CheckpointCreate,
  EvidenceSummary,
  Run,
  RunChange,
  RunCreate,
  RunEvent,
  RunEventAdd,
  RunFinish,
  TimelineCheck,
} from '../../contract/run.ts'
import type { Caller, Page } from '../sessions/caller.ts'

/** The doors of a session that are about its runs. */
export interface RunApi {
  createRun(caller: Caller, input: RunCreate, idempotencyKey: string | null): Promise<Run>
  runs(caller: Caller, page: Page): Promise<{ items: Run[]; next: number | null }>
  run(caller: Caller, runId: string): Promise<RunRecord>
  runEvents(
    caller: Caller,
    runId: string,
    page: Page,
  ): Promise<{ items: RunEvent[]; next: number | null }>
  changeRun(caller: Caller, runId: string, change: RunChange): Promise<Run>
  /** Cancelling also aborts its turn and answers what is open. */
  finishRun(caller: Caller, runId: string, finish: RunFinish): Promise<Run>
  addRunEvent(caller: Caller, runId: string, event: RunEventAdd): Promise<RunEvent>
  addCheckpoint(caller: Caller, runId: string, checkpoint: CheckpointCreate): Promise<Checkpoint>
  resumeRun(
    caller: Caller,
    runId: string,
    checkpointId: string | null,
  ): Promise<{ run: Run; checkpoint: Checkpoint }>
  /** Compares the timeline with itself and with its signed head in the ledger. */
  verifyRun(caller: Caller, runId: string): Promise<TimelineCheck>
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

const doors: Record<keyof RunApi, true> = {
  createRun: true,
  runs: true,
  run: true,
  runEvents: true,
  changeRun: true,
  finishRun: true,
  addRunEvent: true,
  addCheckpoint: true,
  resumeRun: true,
  verifyRun: true,
}
export const runDoors = Object.keys(doors) as (keyof RunApi)[]

/** The doors of a session that are about its approvals. */
export interface ApprovalApi {
  /** Newest first; of one run, or of all. */
  approvals(caller: Caller, runId: string | null): Promise<Approval[]>
  approval(caller: Caller, approvalId: string): Promise<Approval>
  resolveApproval(caller: Caller, approvalId: string, vote: ApprovalResolve): Promise<Approval>
  /** Ends what was remembered. */
  revokeApproval(caller: Caller, approvalId: string, revoke: ApprovalRevoke): Promise<Approval>
}
const approvalNames: Record<keyof ApprovalApi, true> = {
  approvals: true,
  approval: true,
  resolveApproval: true,
  revokeApproval: true,
}
export const approvalDoors = Object.keys(approvalNames) as (keyof ApprovalApi)[]

/** The doors of a session that are about operations and their attempts. */
export interface OperationApi {
  executeOperation(
    caller: Caller,
    runId: string,
    operation: Operation,
    options: { evaluateOnly: boolean; idempotencyKey: string | null },
  ): Promise<OperationRecord>
  /** With a wait it answers once nothing moves any more. */
  operation(caller: Caller, operationId: string, waitMs: number): Promise<OperationRecord>
  /** Decides nothing and writes nothing. */
  planOperation(caller: Caller, operation: Operation): Promise<IsolationPlan>
  resumeApproval(caller: Caller, approvalId: string): Promise<OperationRecord>
  abandonAttempt(caller: Caller, attemptId: string, reason: string): Promise<Attempt>
  evaluateRetry(caller: Caller, operationId: string, policy: RetryPolicy): Promise<RetryEvaluation>
  admitRetry(caller: Caller, operationId: string, policy: RetryPolicy): Promise<Attempt>
  /** Runs an attempt that was admitted. */
  executeAttempt(caller: Caller, attemptId: string): Promise<OperationRecord>
  mergeAttempt(caller: Caller, attemptId: string): Promise<MergeReport>
  /** Drops its branch: it cannot be merged any more. */
  discardAttempt(caller: Caller, attemptId: string): Promise<DiscardReport>
}
const operationNames: Record<keyof OperationApi, true> = {
  executeOperation: true,
  operation: true,
  planOperation: true,
  resumeApproval: true,
  abandonAttempt: true,
  evaluateRetry: true,
  admitRetry: true,
  executeAttempt: true,
  mergeAttempt: true,
  discardAttempt: true,
}
export const operationDoors = Object.keys(operationNames) as (keyof OperationApi)[]
