import type { CommandBody } from '../../../contract/link.ts'
import { turnPatience } from '../../../contract/turn.ts'
import { setDeadline } from '../../actor/deadlines.ts'
import type { Sql } from '../../ports.ts'
import { addCommand, dropSteerCommands, loadCommand } from '../commands/rows.ts'
import { dropQueuedTurns, runningTurn } from './rows.ts'

/** Of the running turn and of all that wait. */
export function requestAbort(sql: Sql, now: number, generation: number, reason: string): void {
  dropQueuedTurns(sql, now, null, reason)
  abortRunning(sql, now, generation, reason)
}

export function abortRunning(sql: Sql, now: number, generation: number, reason: string): void {
  // What was to be merged would otherwise come back as a turn of its own.
  dropSteerCommands(sql, 'The turn was aborted')
  const running = runningTurn(sql)
  if (!running || running.abort_requested) return
  sql.run('update turns set abort_requested = 1 where n = ?', running.n)
  commandAbort(sql, now, generation, running.id, reason)
  setDeadline(sql, 'turn.abort', now + turnPatience.confirmMs)
}

export function commandAbort(
  sql: Sql,
  now: number,
  generation: number,
  turnId: string,
  reason: string,
): void {
  const body = { turnId, reason }
  addCommand(sql, now, { id: abortId(turnId), generation, kind: 'abort', body })
}

const abortId = (turnId: string) => `abort_${turnId}`

/** Null if nobody has aborted it. */
export function abortReason(sql: Sql, turnId: string): string | null {
  const command = loadCommand(sql, abortId(turnId))
  return command ? ((JSON.parse(command.body) as CommandBody<'abort'>).reason ?? null) : null
}
