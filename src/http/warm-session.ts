import { errorCodeOf } from '../contract/error.ts'
import type { Session } from '../contract/session.ts'
import type { CreateSession } from '../core/sessions/api.ts'
import { mayBeWarm } from '../core/sessions/warm.ts'
import type { AppDeps } from './deps.ts'

/** A session that was booted before, as this creation would make it; null: there is none, and it is made as usual. */
export async function claimWarmSession(
  deps: Pick<AppDeps, 'session' | 'organisation' | 'warm' | 'config'>,
  create: CreateSession,
  isRepeat: boolean,
): Promise<Session | null> {
  const { configuration, sessionId: creationId, organisationId } = create
  if (!configuration || !mayBeWarm(create.input, deps.config.defaultSandbox)) return null
  const organisation = deps.organisation(organisationId)
  const version = await deps.warm.versionOf(create)
  const claim = { configurationId: configuration.id, version, creationId, isRepeat }
  const sessionId = await organisation.claimWarm(claim)
  if (sessionId === null) return null
  try {
    const session = await deps.session(sessionId).adopt(create)
    if (session) return session
  } catch (error) {
    const code = errorCodeOf(error)
    // A refusal of what was asked for: the session is as it was, and somebody else may have it.
    if (code === 'unprocessable')
      await organisation.returnWarm({ creationId, sessionId, isGone: false })
    // After any other failure it may have been adopted: the same creation gets the same one again.
    if (code !== 'not_found') throw error
  }
  await organisation.returnWarm({ creationId, sessionId, isGone: true })
  return null
}
