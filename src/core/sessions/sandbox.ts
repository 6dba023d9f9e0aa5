import type { SandboxState } from '../../contract/session.ts'
import type { Sql } from '../ports.ts'
import { appendEvent } from './events.ts'
import { loadSession, projectSession } from './record.ts'

/** One cause per change of state. The table in SPEC.md, area BOX, is this one. */
export type SandboxCause =
  | 'create-sent'
  | 'created'
  | 'hello'
  | 'ready'
  | 'link-lost'
  | 'gone'
  | 'failed'
  | 'close'
  | 'stopped'
  | 'replace'

/** From the first sign of the sandbox to ready. */
export const bootMs = 120_000

const starting = { hello: 'booting', ready: 'ready', failed: 'failed', gone: 'failed' } as const
const ending = { close: 'stopping', replace: 'requested' } as const

export const sandboxTransitions: Record<
  SandboxState,
  Partial<Record<SandboxCause, SandboxState>>
> = {
  none: {},
  requested: { 'create-sent': 'creating', ...starting, ...ending },
  creating: { created: 'booting', ...starting, ...ending },
  booting: { ...starting, ...ending },
  ready: { hello: 'booting', 'link-lost': 'suspect', gone: 'lost', failed: 'failed', ...ending },
  suspect: { hello: 'booting', ready: 'ready', gone: 'lost', failed: 'failed', ...ending },
  lost: ending,
  failed: ending,
  stopping: { stopped: 'stopped' },
  stopped: {},
}

/** Null where the cause means nothing in this state: late and repeated news change nothing. */
export function nextSandboxState(state: SandboxState, cause: SandboxCause): SandboxState | null {
  return sandboxTransitions[state][cause] ?? null
}

export function changeSandbox(
  sql: Sql,
  now: number,
  cause: SandboxCause,
  reason: string | null,
): boolean {
  const session = loadSession(sql)
  const state = nextSandboxState(session.sandboxState, cause)
  if (state === null) return false
  if (state === session.sandboxState && cause !== 'replace') return true
  save(sql, now, state, cause === 'replace' ? session.generation + 1 : session.generation, reason)
  return true
}

/** The next generation of a session that has no sandbox. */
export function moveOn(sql: Sql, now: number, reason: string): true {
  const { sandboxState, generation } = loadSession(sql)
  save(sql, now, sandboxState, generation + 1, reason)
  return true
}

function save(
  sql: Sql,
  now: number,
  state: SandboxState,
  generation: number,
  reason: string | null,
): void {
  sql.run(
    'update session set sandbox_state = ?, sandbox_reason = ?, generation = ?',
    state,
    reason,
    generation,
  )
  appendEvent(sql, now, 'sandbox.changed', { state, generation, reason })
  projectSession(sql, now)
}
