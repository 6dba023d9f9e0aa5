import { clearDeadline, setDeadline } from '../../actor/deadlines.ts'
import type { Sql } from '../../ports.ts'
import { loadSession } from '../record/record.ts'
import { beginGeneration } from './generations.ts'
import { beginStart, chooseSource } from './start.ts'
import { changeSandbox } from './states.ts'

/** Of the sandbox that is watched now. What stops an old one, or tells the organisation, is not among them. */
const watching = ['boot', 'look', 'check', 'next', 'idle', 'extend', 'pulse', 'snapshot'] as const
export function stopWatching(sql: Sql): void {
  for (const name of watching) clearDeadline(sql, `sandbox.${name}`)
}

/** The one before is out of the way. */
export function requestNext(sql: Sql, now: number): void {
  clearDeadline(sql, 'sandbox.next')
  if (changeSandbox(sql, now, 'next', null)) requestCreation(sql, now)
}

function requestCreation(sql: Sql, now: number): void {
  setDeadline(sql, `sandbox.create:${loadSession(sql).generation}`, now)
}

/** A session that sleeps is given a sandbox again, from where it was. */
export function wakeSandbox(sql: Sql, now: number): void {
  if (!changeSandbox(sql, now, 'wake', null)) return
  startSandbox(sql, now)
}

/** The state says that one is requested. */
export function startSandbox(sql: Sql, now: number): void {
  const { generation, snapshotId } = loadSession(sql)
  beginStart(sql, now)
  beginGeneration(sql, generation, chooseSource(sql, snapshotId))
  requestCreation(sql, now)
}
