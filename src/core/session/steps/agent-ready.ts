import { pulseMs } from '../generations/pulse.ts'
import { clearDeadline, ensureDeadline, setDeadline } from '../../actor/deadlines.ts'
import type { Sql } from '../../ports.ts'
import {
  isGenerationSteady,
  loadGeneration,
  noteConnected,
  noteReady,
} from '../generations/generations.ts'
import { nextLeaseExtension } from '../generations/lease.ts'
import { saveEveryMs } from '../snapshots/saving.ts'
import { loadSession } from '../record/record.ts'
import { bootMs, changeSandboxState, isWorking, lookMs } from '../generations/sandbox-states.ts'
import { beginStart, retryStart, setStartRetryAt } from '../generations/sandbox-start.ts'
import { startNextTurn } from '../turns/rows.ts'

/** The agent has said hello. The answer to its creation may have been lost, and with it the deadlines that follow. */
export function agentHello(sql: Sql, now: number, generation: number, isReady: boolean): void {
  clearDeadline(sql, `sandbox.create:${generation}`)
  clearDeadline(sql, 'sandbox.check')
  if (noteConnected(sql, generation, now)) setDeadline(sql, `sandbox.connected:${generation}`, now)
  const before = loadSession(sql)
  const changed = changeSandboxState(sql, now, isReady ? 'ready' : 'hello', null)
  if (isReady && loadSession(sql).sandboxState === 'ready') agentNowReady(sql, now, generation)
  if (isReady || !changed) return
  ensureDeadline(sql, 'sandbox.boot', now + bootMs)
  ensureDeadline(sql, 'sandbox.look', now + lookMs)
  if (isWorking(before) && isGenerationSteady(sql, now, generation)) beginStart(sql, now)
  else retryStart(sql, now)
}

/** It can work: what waited for it begins, and from here on its idle time and its lifetime count. */
export function agentNowReady(sql: Sql, now: number, generation: number): void {
  for (const name of ['boot', 'look', 'start'] as const) clearDeadline(sql, `sandbox.${name}`)
  noteReady(sql, generation, now)
  setStartRetryAt(sql, null)
  const { idleTimeoutSeconds } = loadSession(sql)
  if (idleTimeoutSeconds !== null)
    ensureDeadline(sql, 'sandbox.idle', now + idleTimeoutSeconds * 1000)
  ensureDeadline(sql, 'sandbox.pulse', now + pulseMs)
  ensureDeadline(sql, 'sandbox.snapshot', now + saveEveryMs)
  const own = loadGeneration(sql, generation)
  if (own?.leaseUntil) ensureDeadline(sql, 'sandbox.extend', nextLeaseExtension(own, now))
  startNextTurn(sql, now, generation)
}
