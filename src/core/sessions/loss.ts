import { clearDeadline, setDeadline } from '../deadlines.ts'
import type { Sql } from '../ports.ts'
import { type Answer, denyOpenAsks } from './asks.ts'
import { dropOpenCommands } from './commands.ts'
import { loadSession } from './record.ts'
import { changeSandbox } from './sandbox.ts'
import { endTurnHere, runningTurn } from './turns.ts'

/** The sandbox is gone or failed: nothing parked may run, the turn is interrupted, open commands are answered. */
export function loseSandbox(
  sql: Sql,
  now: number,
  cause: 'gone' | 'failed',
  reason: string,
): Answer[] {
  if (!changeSandbox(sql, now, cause, reason)) return []
  // What is left of it must not go on working.
  setDeadline(sql, `sandbox.stop:${loadSession(sql).generation}`, now)
  const answers = denyOpenAsks(sql, now, 'The sandbox was lost', 'sandbox-lost')
  interruptTurn(sql, now, reason)
  dropOpenCommands(sql, `The sandbox was lost: ${reason}`)
  clearDeadline(sql, 'sandbox.boot')
  clearDeadline(sql, 'sandbox.check')
  clearDeadline(sql, 'sandbox.create')
  return answers
}

export function interruptTurn(sql: Sql, now: number, reason: string): void {
  const running = runningTurn(sql)
  if (running) endTurnHere(sql, now, { turnId: running.id, state: 'interrupted', reason })
}
