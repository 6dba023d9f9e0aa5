import { turnPatience } from '../../../contract/turn.ts'
import { clearDeadline, setDeadline } from '../../actor/deadlines.ts'
import type { Sql } from '../../ports.ts'

/** A turn runs, and its agent is to be heard of again in time: it takes the prompt, or says that it has the turn. */
export function watchTurnSilence(sql: Sql, now: number): void {
  setDeadline(sql, 'turn.silent', now + turnPatience.silentMs)
  clearDeadline(sql, 'turn.lost')
}

/** No turn runs, or one of an agent that says nothing while it works. */
export function unwatchTurnSilence(sql: Sql): void {
  clearDeadline(sql, 'turn.silent')
  clearDeadline(sql, 'turn.lost')
}

/** It has been made to connect again. */
export function watchLastTurnSilence(sql: Sql, now: number): void {
  clearDeadline(sql, 'turn.silent')
  setDeadline(sql, 'turn.lost', now + turnPatience.reconnectMs)
}

/** From here on its agent says that it has the turn, or nothing. */
export function endTurnSilence(sql: Sql, now: number, result: object): void {
  if ('beats' in result && result.beats === true) watchTurnSilence(sql, now)
  else unwatchTurnSilence(sql)
}
