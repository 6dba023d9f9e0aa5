import { AppError } from '../../../contract/error.ts'
import { maySeePlace } from '../../registry/place.ts'
import { loadAttemptTerms } from './attempt-terms.ts'
import type { Caller, SandboxCaller } from './caller.ts'
import type { SessionKernel } from './kernel.ts'
import { isLive, type SessionRecord } from './record.ts'
import { isOver } from './record.ts'

/** Whoever asks. A sandbox, and the organisation itself, have no limits. */
export type SessionCaller = Pick<Caller, 'organisationId' | 'limits'> & { memberId?: string | null }

/** Another organisation's session, one outside of the key's limits, and one that is being erased, are not there. */
export function guardSession(kernel: SessionKernel, caller: SessionCaller): SessionRecord {
  const session = kernel.session()
  const isThere = session.organisationId === caller.organisationId && session.status !== 'erased'
  if (!isThere || !maySeePlace(caller, session)) throw new AppError('not_found', 'No such session')
  return session
}

/** For what cannot be undone: whoever made the session, or an admin. */
export function guardOwnSession(
  kernel: SessionKernel,
  caller: Caller,
  what: string,
): SessionRecord {
  const session = guardSession(kernel, caller)
  // A release that had no members has kept the key alone.
  const { memberId, keyId } = session
  const isOwn = memberId === null ? keyId === caller.keyId : memberId === caller.memberId
  if (isOwn || caller.scopes?.includes('admin')) return session
  throw new AppError('forbidden', `Cannot ${what}: another member has made it, ask an admin`)
}

/** For whoever stores what callers say. The session is looked at again after the wait: it may have been deleted meanwhile. */
export async function guardEntry(kernel: SessionKernel, caller: Caller): Promise<SessionRecord> {
  guardSession(kernel, caller)
  await kernel.openSecrets()
  return guardSession(kernel, caller)
}

/** Only the newest sandbox counts, and only while the session has not given it up. */
export function guardSandboxSession(kernel: SessionKernel, sandbox: SandboxCaller): SessionRecord {
  const session = guardSession(kernel, sandbox)
  if (session.generation !== sandbox.generation) {
    throw new AppError('old_generation', 'This sandbox has been replaced')
  }
  if (isLive(session) && isOver(session.sandboxState)) {
    throw new AppError('old_generation', `This sandbox has been given up: ${session.sandboxState}`)
  }
  return session
}

export function guardOpenSandbox(kernel: SessionKernel, sandbox: SandboxCaller): SessionRecord {
  const session = guardSandboxSession(kernel, sandbox)
  if (!isLive(session)) guardOpenSession(session)
  return session
}

export function guardOpenSession(session: SessionRecord): void {
  if (session.status === 'warm') throw new AppError('wrong_state', `Cannot use it: ${notClaimed}`)
  if (session.status !== 'open') throw new AppError('session_closed', 'The session is closed')
}

/**
 * For whoever wants something done in a session. An attempt of an eval run does what its run asks and nothing else: its
 * result stands for its target, and may release it.
 */
export function guardAttempt(
  kernel: SessionKernel,
  { evalRunId }: Pick<Caller, 'evalRunId'>,
): void {
  const terms = loadAttemptTerms(kernel.ports.sql)
  if (terms === null || terms.evalRunId === evalRunId) return
  throw new AppError(
    'wrong_state',
    `Cannot use it: the session is an attempt of the eval run "${terms.evalRunId}"`,
  )
}

export const notClaimed = 'session is warm. Create one of its configuration to claim it'
