import type { RunEnd } from '../../../contract/run.ts'
import type { TurnState } from '../../../contract/turn.ts'
import type { Sql } from '../../ports.ts'
import { closeRun } from '../approvals/close-runs.ts'
import { changeRun, insertRun, findRun, mustOpenRun, openRun, recordOnRun } from '../runs/rows.ts'

const endOfTurn: Partial<Record<TurnState, RunEnd>> = {
  completed: 'completed',
  failed: 'failed',
  interrupted: 'failed',
  aborted: 'cancelled',
}

/** Every turn is in a run: the given one, else the one that is open, else a new one with the prompt as its intent. */
export function runOfTurnPrompt(
  sql: Sql,
  now: number,
  prompt: { runId: string | null; freshRunId: string; text: string },
): string {
  if (prompt.runId !== null) return mustOpenRun(sql, prompt.runId).id
  const open = openRun(sql)
  if (open) return open.id
  insertRun(sql, now, prompt.freshRunId, { intent: prompt.text, implicit: true })
  return prompt.freshRunId
}

export function noteTurnStarted(sql: Sql, now: number, runId: string | null, turnId: string): void {
  if (runId === null) return
  changeRun(sql, now, runId, 'start', null)
  recordOnRun(sql, now, runId, 'turn.started', { turnId })
}

/** A run that a prompt made ends with its last turn. */
export function noteTurnEnded(
  sql: Sql,
  now: number,
  runId: string | null,
  turn: { id: string; state: TurnState; reason: string | null },
): void {
  if (runId === null) return
  recordOnRun(sql, now, runId, 'turn.ended', {
    turnId: turn.id,
    state: turn.state,
    reason: turn.reason,
  })
  const end = endOfTurn[turn.state]
  if (!end || findRun(sql, runId)?.implicit !== 1 || hasMoreTurns(sql, runId)) return
  closeRun(sql, now, runId, { status: end, reason: turn.reason, actor: 'turn-end', owner: null })
}

function hasMoreTurns(sql: Sql, runId: string): boolean {
  return (
    sql.all(
      `select 1 from turns where run_id = ? and state in ('queued', 'running') limit 1`,
      runId,
    ).length > 0
  )
}
