import type { RunClose } from '../runs/runs.ts'
import type { Sql } from '../../ports.ts'
import { pendingApprovalsOfRun, settleApproval } from './rows.ts'
import { endRun, openRuns } from '../runs/rows.ts'

/** A run ends with nothing left to answer. */
export function closeRun(sql: Sql, now: number, runId: string, end: RunClose): void {
  const { status, reason, actor, owner } = end
  for (const { id } of pendingApprovalsOfRun(sql, runId))
    settleApproval(sql, now, id, {
      state: 'cancelled',
      actor,
      owner,
      reason: `The run was ${status}`,
    })
  endRun(sql, now, runId, status, reason)
}

export function closeOpenRuns(sql: Sql, now: number, reason: string): void {
  for (const { id } of openRuns(sql))
    closeRun(sql, now, id, { status: 'cancelled', reason, actor: 'close', owner: null })
}
