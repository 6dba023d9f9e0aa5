import { clearDeadline, ensureDeadline, setDeadline } from '../../actor/deadlines.ts'
import type { Sql } from '../../ports.ts'
import { appendEvent } from '../log/events.ts'
import type { SessionPorts } from '../record/ports.ts'
import { loadSession } from '../record/record.ts'
import { changeSandboxState } from './sandbox-states.ts'

/** An agent pings every 15 s, and gives its socket up after 40 s of silence. */
export const pulseMs = 60_000
export function isPulseSilent({ host, now }: Pick<SessionPorts, 'host' | 'now'>): boolean {
  const heardAt = host.agentHeardAt()
  return heardAt === null || now() - heardAt > pulseMs
}
/** An agent that lives is back by then; of one that does not the provider knows at once. */
const checkAfterMs = 2000
/** A provider may be late to notice; and an agent that boots has other things to do. */
export const recheckMs = 10_000

/** A missing socket is not a dead machine: the provider is asked before anything is given up. */
export function pulseLost(sql: Sql, now: number): void {
  const { generation, sandboxState } = loadSession(sql)
  appendEvent(sql, now, 'link.disconnected', { generation })
  changeSandboxState(sql, now, 'link-lost', 'The link to the sandbox is down')
  if (sandboxState === 'ready' || sandboxState === 'suspect')
    setDeadline(sql, 'sandbox.check', now + checkAfterMs)
  else if (sandboxState === 'booting') ensureDeadline(sql, 'sandbox.boot', now + recheckMs)
}

/** Of the sandbox that is watched now. What stops an old one, or tells the organisation, is not among them. */
const watching = ['boot', 'look', 'check', 'next', 'idle', 'extend', 'pulse', 'snapshot'] as const
export function stopPulse(sql: Sql): void {
  for (const name of watching) clearDeadline(sql, `sandbox.${name}`)
}
