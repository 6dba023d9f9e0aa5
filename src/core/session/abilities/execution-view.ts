import type {
  AbilityStatus,
  Execution,
  ExecutionRecord,
  ExecutionStep,
} from '../../../contract/execution.ts'
import type { ApprovalId, ExecutionId, RunId, SessionId } from '../../../contract/ids.ts'
import { hasStepEnded } from '../../abilities/engine.ts'
import { pageThatFits } from '../../actor/paging.ts'
import type { Sql } from '../../ports.ts'
import { pendingApprovalsOfRun } from '../approvals/rows.ts'
import {
  activeExecution,
  childExecutions,
  type ExecutionRow,
  findExecutionCopy,
  executionProgress,
  type StepRow,
  executionSteps,
} from '../executions/rows.ts'
import { loadSession } from '../record/record.ts'

/** Executions as their callers see them. Secret inputs are not in their rows. */

const isOpen = ({ state }: ExecutionRow): boolean => state === 'planned' || state === 'running'

export function viewExecution(sql: Sql, row: ExecutionRow): Execution {
  const steps = executionSteps(sql, row.id).filter(({ part }) => part === 'step')
  const current = isOpen(row)
    ? (steps.find(isMoving) ?? steps.find(({ state }) => state === 'pending'))
    : undefined
  const idsOf = (wanted: (step: StepRow) => boolean) => steps.filter(wanted).map(({ id }) => id)
  return {
    id: row.id as ExecutionId,
    sessionId: loadSession(sql).id as SessionId,
    runId: row.run_id as RunId,
    ability: row.ability,
    version: row.version,
    hash: row.hash,
    enforcement:
      findExecutionCopy(sql, row.hash, row.ability)?.definition.settings.enforcement ?? 'strict',
    parentId: row.parent_id as ExecutionId | null,
    status: row.state === 'planned' ? 'running' : row.state,
    inputs: JSON.parse(row.inputs) as Record<string, unknown>,
    currentStep: current?.id ?? null,
    currentStepIndex: current === undefined ? null : steps.indexOf(current),
    progress: executionProgress(sql, row.id),
    completedSteps: idsOf(({ state }) => hasStepEnded(state)),
    pendingSteps: idsOf(({ state }) => state === 'pending'),
    waitsFor: isOpen(row) ? waitsFor(sql, row) : [],
    planHash: row.plan_hash,
    error: row.error,
    startedAt: row.started_at,
    completedAt: row.ended_at,
  }
}

const isMoving = ({ state }: StepRow): boolean => state === 'running' || state === 'asking'

function waitsFor(sql: Sql, row: ExecutionRow): Execution['waitsFor'] {
  const steps = executionSteps(sql, row.id)
  const approvals = pendingApprovalsOfRun(sql, row.run_id).map(({ id, subject, title }) => ({
    executionId: row.id as ExecutionId,
    stepId: steps.find((step) => step.subject === id || step.subject === subject)?.id ?? null,
    why: title,
    approvalId: id as ApprovalId,
  }))
  const asking = steps.filter(({ state }) => state === 'asking')
  return [
    ...approvals,
    ...asking.map(({ id, error }) => ({
      executionId: row.id as ExecutionId,
      ...{ stepId: id, why: error ?? '', approvalId: null },
    })),
    ...childExecutions(sql, row.id).flatMap((child) => waitsFor(sql, child)),
  ]
}

export function viewExecutionRecord(sql: Sql, row: ExecutionRow): ExecutionRecord {
  return { ...viewExecution(sql, row), steps: shownSteps(sql, row.id) }
}

const maxShown = 2 * 1024 * 1024

/** All of them; outputs only as far as they fit into one answer, those of the last steps first. */
function shownSteps(sql: Sql, executionId: string): ExecutionStep[] {
  let room = maxShown
  const shown = executionSteps(sql, executionId)
    .toReversed()
    .map((row) => {
      const step = toStep(row)
      room -= step.output?.length ?? 0
      return room < 0 ? { ...step, output: '(too long to be shown with the others)' } : step
    })
  return shown.toReversed()
}

const toStep = (row: StepRow): ExecutionStep => ({
  stepId: row.id,
  type: row.type,
  part: row.part,
  status: row.state,
  tries: row.tries,
  output: row.output,
  error: row.error,
  exitCode: row.exit_code,
  subject: row.subject,
  startedAt: row.started_at,
  completedAt: row.ended_at,
  durationMs:
    row.started_at === null || row.ended_at === null ? null : row.ended_at - row.started_at,
})

/** Newest first, children too. */
export function viewExecutions(
  sql: Sql,
  page: { limit: number; after: number | null },
): { items: Execution[]; next: number | null } {
  const query = {
    from: 'executions where n < ?',
    by: 'n desc',
    size: 'length(inputs)',
    limit: page.limit + 1,
  }
  const rows = pageThatFits<ExecutionRow>(sql, query, page.after ?? Number.MAX_SAFE_INTEGER)
  const items = rows.slice(0, page.limit)
  const last = items.at(-1)?.n ?? null
  const isMore =
    last !== null && sql.all('select 1 from executions where n < ? limit 1', last).length > 0
  return { items: items.map((row) => viewExecution(sql, row)), next: isMore ? last : null }
}

export function viewExecutionStatus(sql: Sql): AbilityStatus {
  const row = activeExecution(sql)
  if (!row)
    return {
      ...{ active: false, ability: null, executionId: null },
      ...{ currentStep: null, progress: null, status: null },
    }
  const { id, ability, currentStep, progress, status } = viewExecution(sql, row)
  return { active: true, ability, executionId: id, currentStep, progress, status }
}
