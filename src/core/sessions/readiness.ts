import { clearDeadline, ensureDeadline, setDeadline } from '../deadlines.ts'
import type { Sql } from '../ports.ts'
import { appendEvent } from './events.ts'
import { isSteady, loadGeneration, noteConnected, noteReady } from './generations.ts'
import { nextExtension } from './lease.ts'
import type { SessionPorts } from './ports.ts'
import { loadSession } from './record.ts'
import { bootMs, changeSandbox, isWorking, lookMs } from './sandbox.ts'
import { beginStart, goOn, setRetryAt } from './start.ts'
import { startNextTurn } from './turns.ts'

/** An agent pings every 15 s, and gives its socket up after 40 s of silence. */
export const pulseMs = 60_000
export function isSilent({ host, now }: Pick<SessionPorts, 'host' | 'now'>): boolean {
  const heardAt = host.agentHeardAt()
  return heardAt === null || now() - heardAt > pulseMs
}
const checkAfterMs = 10_000

/** The agent has said hello. The answer to its creation may have been lost, and with it the deadlines that follow. */
export function agentCalled(sql: Sql, now: number, generation: number, isReady: boolean): void {
  clearDeadline(sql, `sandbox.create:${generation}`)
  clearDeadline(sql, 'sandbox.check')
  if (noteConnected(sql, generation, now)) setDeadline(sql, `sandbox.connected:${generation}`, now)
  const before = loadSession(sql)
  const changed = changeSandbox(sql, now, isReady ? 'ready' : 'hello', null)
  if (isReady && loadSession(sql).sandboxState === 'ready') nowReady(sql, now, generation)
  if (isReady || !changed) return
  ensureDeadline(sql, 'sandbox.boot', now + bootMs)
  ensureDeadline(sql, 'sandbox.look', now + lookMs)
  if (isWorking(before) && isSteady(sql, now, generation)) beginStart(sql, now)
  else goOn(sql, now)
}

/** It can work: what waited for it begins, and from here on its idle time and its lifetime count. */
export function nowReady(sql: Sql, now: number, generation: number): void {
  for (const name of ['boot', 'look', 'start']) clearDeadline(sql, `sandbox.${name}`)
  noteReady(sql, generation, now)
  setRetryAt(sql, null)
  const { idleTimeoutSeconds } = loadSession(sql)
  if (idleTimeoutSeconds !== null)
    ensureDeadline(sql, 'sandbox.idle', now + idleTimeoutSeconds * 1000)
  ensureDeadline(sql, 'sandbox.pulse', now + pulseMs)
  const own = loadGeneration(sql, generation)
  if (own?.leaseUntil) ensureDeadline(sql, 'sandbox.extend', nextExtension(own, now))
  startNextTurn(sql, now, generation)
}

/** A missing socket is not a dead machine: the provider is asked before anything is given up. */
export function linkLost(sql: Sql, now: number): void {
  const { generation, sandboxState } = loadSession(sql)
  appendEvent(sql, now, 'link.disconnected', { generation })
  changeSandbox(sql, now, 'link-lost', 'The link to the sandbox is down')
  if (sandboxState === 'ready' || sandboxState === 'suspect')
    setDeadline(sql, 'sandbox.check', now + checkAfterMs)
  else if (sandboxState === 'booting') ensureDeadline(sql, 'sandbox.boot', now + checkAfterMs)
}
