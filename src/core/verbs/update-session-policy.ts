import type { Db } from '../ports.ts'
import { loadPolicyFor } from '../registry/policies/policies.ts'
import type { SessionApi } from '../session/session.ts'
import type { PolicyName } from '../session/gate/gate.ts'
import type { Caller } from '../session/record/caller.ts'

interface UpdateSessionPolicyPorts {
  db(): Db
  session(id: string): {
    self: Pick<SessionApi['self'], 'view'>
    gate: Pick<SessionApi['gate'], 'setPolicy'>
  }
}

/** Moves a session to the newest version of the policy that counts for its project. */
export async function updateSessionPolicy(
  ports: UpdateSessionPolicyPorts,
  caller: Caller,
  sessionId: string,
): Promise<PolicyName> {
  const session = ports.session(sessionId)
  const { project } = await session.self.view(caller)
  const found = await loadPolicyFor(ports.db(), caller.organisationId, project)
  return await session.gate.setPolicy(caller, found?.policy ?? null)
}
