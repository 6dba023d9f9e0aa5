import type { SandboxState } from '../../../contract/session.ts'
import { setDeadline } from '../../actor/deadlines.ts'
import type { Sql } from '../../ports.ts'
import { addDelivery } from '../webhooks/deliveries.ts'
import { appendEvent } from '../log/events.ts'
import { isLive, loadSession, projectSession, type SessionRecord } from '../record/record.ts'

/** One cause per change of state. The table in SPEC.md, area BOX, is this one. */
export type SandboxCause =
  | 'create-sent'
  | 'created'
  | 'hello'
  | 'ready'
  | 'link-lost'
  /** The provider does not know it, or its agent has ended. */
  | 'gone'
  /** Its agent says that it cannot go on. */
  | 'broken'
  /** It did not become ready; the next generation is tried. */
  | 'start-failed'
  | 'gave-up'
  | 'hibernate'
  | 'wake'
  | 'replace'
  /** The generation before is stopped, or had its time for it. */
  | 'next'
  | 'close'
  | 'stopped'

/** From the first sign of the sandbox to ready. */
export const bootMs = 120_000
/** How often the provider is asked about one that boots. */
export const lookMs = 5000

const ending = { close: 'stopping', replace: 'replacing' } as const
const calling = { hello: 'booting', ready: 'ready' } as const
const failing = { 'start-failed': 'replacing', 'gave-up': 'failed' } as const
/** Asleep, by its idle time or because everything must stop: either way the session goes on later. */
const halting = { hibernate: 'stopping' } as const
const working = { gone: 'lost', broken: 'lost', ...halting } as const

export const sandboxTransitions: Record<
  SandboxState,
  Partial<Record<SandboxCause, SandboxState>>
> = {
  none: {},
  requested: { 'create-sent': 'creating', ...calling, 'gave-up': 'failed', ...halting, ...ending },
  creating: { created: 'booting', ...calling, ...failing, ...halting, ...ending },
  booting: { ...calling, ...failing, ...halting, ...ending },
  ready: { hello: 'booting', 'link-lost': 'suspect', ...working, ...ending },
  suspect: { ...calling, ...working, ...ending },
  lost: { 'gave-up': 'failed', ...ending },
  replacing: { next: 'requested', 'gave-up': 'failed', ...ending },
  stopping: { stopped: 'stopped', replace: 'replacing' },
  stopped: { wake: 'requested', replace: 'replacing' },
  failed: ending,
}

/** Each begins a new generation: from that commit on the one before is refused. */
const fencing: readonly SandboxCause[] = ['replace', 'start-failed', 'wake']

/** There is a machine in which the agent has worked. */
export const isWorking = (session: SessionRecord): boolean =>
  isLive(session) && (session.sandboxState === 'ready' || session.sandboxState === 'suspect')

const starting: readonly SandboxState[] = ['requested', 'creating', 'booting', 'replacing']
export const isStarting = (state: SandboxState): boolean => starting.includes(state)

/** Null where the cause means nothing in this state: late and repeated news change nothing. */
export function nextSandboxState(state: SandboxState, cause: SandboxCause): SandboxState | null {
  return sandboxTransitions[state][cause] ?? null
}

export function changeSandboxState(
  sql: Sql,
  now: number,
  cause: SandboxCause,
  reason: string | null,
): boolean {
  const { sandboxState, generation } = loadSession(sql)
  const state = nextSandboxState(sandboxState, cause)
  if (state === null) return false
  const fences = fencing.includes(cause)
  if (state === sandboxState && !fences) return true
  save(sql, now, state, fences ? generation + 1 : generation, reason)
  return true
}

/** Why it is still in its state. Told again only if there is something new to say. */
export function explainSandboxState(sql: Sql, now: number, reason: string): void {
  const { sandboxState, sandboxReason, generation } = loadSession(sql)
  if (sandboxReason !== reason) save(sql, now, sandboxState, generation, reason)
}

/** The next generation of a session that has no sandbox. */
export function skipGeneration(sql: Sql, now: number, reason: string): true {
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
  const isWarm = loadSession(sql).status === 'warm'
  // Nobody's yet: only the pool that it waits in must know.
  if (isWarm) setDeadline(sql, 'warm', now)
  else if (state === 'lost')
    addDelivery(sql, now, { event: 'sandbox.lost', runId: null, data: { generation, reason } })
  projectSession(sql, now)
}
