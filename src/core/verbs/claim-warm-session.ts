import { errorCodeOf } from '../../contract/error.ts'
import type { ProviderName } from '../../contract/sandbox.ts'
import type { Session } from '../../contract/session.ts'
import type { OrganisationApi } from '../organisation/organisation.ts'
import type { WarmSource } from '../organisation/record/ports.ts'
import type { SessionApi } from '../session/session.ts'
import type { CreateSession } from '../session/record/record.ts'
import { mayBeWarm } from '../session/warm/fit.ts'

export interface WarmPorts {
  session(id: string): { warm: Pick<SessionApi['warm'], 'adopt'> }
  organisation(id: string): Pick<OrganisationApi, 'pools'>
  warm: Pick<WarmSource, 'versionOf'>
  config: { defaultSandbox: ProviderName }
}

/** A session that was booted before, as this creation would make it; null: there is none, and it is made as usual. */
export async function claimWarmSession(
  ports: WarmPorts,
  create: CreateSession,
  isRepeat: boolean,
): Promise<Session | null> {
  const { configuration, sessionId: creationId, organisationId } = create
  if (!configuration || !mayBeWarm(create, ports.config.defaultSandbox)) return null
  const organisation = ports.organisation(organisationId)
  const version = await ports.warm.versionOf(create)
  const claim = { configurationId: configuration.id, version, creationId, isRepeat }
  const sessionId = await organisation.pools.claim(claim)
  if (sessionId === null) return null
  try {
    const session = await ports.session(sessionId).warm.adopt(create)
    if (session) return session
  } catch (error) {
    const code = errorCodeOf(error)
    // A refusal of what was asked for: the session is as it was, and somebody else may have it.
    if (code === 'unprocessable')
      await organisation.pools.giveBack({ creationId, sessionId, isGone: false })
    // After any other failure it may have been adopted: the same creation gets the same one again.
    if (code !== 'not_found') throw error
  }
  await organisation.pools.giveBack({ creationId, sessionId, isGone: true })
  return null
}
