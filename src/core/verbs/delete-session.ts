import type { OrganisationApi } from '../organisation/organisation.ts'
import type { SessionApi } from '../session/session.ts'
import type { Caller } from '../session/record/caller.ts'

interface DeleteSessionPorts {
  organisation(id: string): Pick<OrganisationApi, 'creations'>
  session(id: string): { self: Pick<SessionApi['self'], 'mayErase' | 'erase'> }
}

/** The creation ends before it is erased: otherwise the session's Idempotency-Key could bring it back while it is erased. */
export async function deleteSession(
  ports: DeleteSessionPorts,
  caller: Caller,
  sessionId: string,
): Promise<void> {
  const { self } = ports.session(sessionId)
  await self.mayErase(caller)
  await ports.organisation(caller.organisationId).creations.end(sessionId)
  await self.erase(caller)
}
