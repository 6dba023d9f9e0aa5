import type { Sql } from '../../ports.ts'
import { cancelAttempts } from '../operations/attempts.ts'
import { type RunClose } from '../runs/runs.ts'
import { closeRun } from '../approvals/close-runs.ts'
import type { Answer } from '../../../contract/ask.ts'
import { denyOpenQuestions } from '../gate/questions.ts'
import { abortRunning } from '../turns/aborts.ts'
import { dropQueuedTurns, runningTurn } from '../turns/rows.ts'

/** Ends a run with all that is under way in it: nothing parked may run any more, and then its turn is aborted. */
export function stopRun(
  sql: Sql,
  now: number,
  generation: number,
  runId: string,
  end: RunClose,
): Answer[] {
  // Completed is no order to stop: what was asked for may still end well.
  if (end.status !== 'completed') cancelAttempts(sql, now, runId, end.actor)
  const isRunning = runningTurn(sql)?.run_id === runId
  const answers = sealRun(sql, now, runId, end)
  if (isRunning) abortRunning(sql, now, generation, whyOf(end))
  return answers
}

/** Ends it with all that waits in it; its turn may have last words. */
export function sealRun(sql: Sql, now: number, runId: string, end: RunClose): Answer[] {
  const answers =
    runningTurn(sql)?.run_id === runId
      ? denyOpenQuestions(sql, now, `The run is ${end.status}`, 'run-end')
      : []
  // Before its queue is dropped: a run that a prompt made would end with its last turn, and not as it is to.
  closeRun(sql, now, runId, end)
  dropQueuedTurns(sql, now, runId, whyOf(end))
  return answers
}

const whyOf = ({ status, reason }: RunClose) =>
  reason === null ? `The run is ${status}` : `The run is ${status}: ${reason}`
