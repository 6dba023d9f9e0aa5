import { canonicalJson } from '../contract/canonical.ts'
import { errorCodeOf } from '../contract/error.ts'
import type { Session, SessionCreate } from '../contract/session.ts'
import type { Caller } from '../core/sessions/caller.ts'
import { prepareSession } from '../core/sessions/prepare.ts'
import type { AppDeps } from './deps.ts'
import { claimWarmSession } from './warm-session.ts'

/** The same key leads to the same session, however often it comes. */
export async function createSession(
  deps: AppDeps,
  { organisationId, keyId }: Caller,
  input: SessionCreate,
  key: string | null,
): Promise<Session> {
  const organisation = deps.organisation(organisationId)
  const fresh = await deps.ids.mint()
  const sessionId =
    key === null
      ? fresh
      : await organisation.claimCreation(key, await deps.crypto.sha256(canonicalJson(input)), fresh)
  const { warmPoolSize, ...prepared } = await prepareSession(deps.db(), organisationId, input)
  const run = input.clientType === 'automation' ? input.automationRunId : undefined
  if (run !== undefined) await organisation.claimRun(run, sessionId)
  const sandbox = input.sandbox ?? deps.config.defaultSandbox
  try {
    const create = { ...prepared, sessionId, organisationId, keyId, input: { ...input, sandbox } }
    const isRepeat = sessionId !== fresh
    const mayBeWarm = warmPoolSize > 0 || isRepeat
    const warm = mayBeWarm ? await claimWarmSession(deps, create, isRepeat) : null
    return warm ?? (await deps.session(sessionId).create(create))
  } catch (error) {
    // A refusal has created nothing. After any other failure the claim stays: the session may be there.
    if (run !== undefined && errorCodeOf(error) === 'unprocessable')
      await organisation.releaseRun(run, sessionId)
    throw error
  }
}
