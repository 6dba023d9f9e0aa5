import type { DeploymentWatch } from './deployment.ts'
import { takePlace } from './firewall/places.ts'
import { yieldPoolPlace } from './pools/growth.ts'
import type { RoomOf } from '../actor/room.ts'
import {
  organisationApiRefusal,
  type Reservation,
  type SandboxClaim,
  type SandboxesApi,
} from './record/api.ts'
import { connectedWithoutEnding, hearSandboxEnding } from './firewall/endings.ts'
import type { OrganisationKernel } from './record/kernel.ts'
import type { Shutdown } from './shutdown.ts'

const unreachableRetryMs = 5000

/** The room of places for sandboxes: sessions ask for one before each creation, and report what became of it. */
export function createSandboxes(
  kernel: OrganisationKernel,
  watch: DeploymentWatch,
  shutdown: Shutdown,
): RoomOf<SandboxesApi> {
  return {
    api: {
      reserve: (claim) => reserveSandbox(kernel, watch, shutdown, claim),
      connected: async (sessionId, generation) =>
        kernel.commit((sql, now) => connectedWithoutEnding(sql, now, sessionId, generation)),
      ended: async (sessionId, generation, end) =>
        kernel.commit((sql, now) =>
          hearSandboxEnding(kernel.ports, sql, now, { sessionId, generation, end }),
        ),
    },
  }
}

/**
 * Gives a session a place for one sandbox, or refuses it. If the deployment's switch cannot be asked, or the stack is
 * about to end, nothing is given. If the firewall refuses for want of a place, a warm session gives up its own in the
 * same commit, and the session gets it when it asks again.
 */
async function reserveSandbox(
  kernel: OrganisationKernel,
  watch: DeploymentWatch,
  shutdown: Shutdown,
  claim: SandboxClaim,
): Promise<Reservation> {
  const { log, now, firewall } = kernel.ports
  try {
    await watch.refresh()
  } catch (error) {
    log('warn', 'Cannot ask the kill switch of the deployment', { error: String(error) })
    const why = 'the kill switch of the deployment cannot be asked'
    return organisationApiRefusal(why, now() + unreachableRetryMs)
  }
  const closing = shutdown.refusal()
  if (closing) return closing
  return kernel.commit((sql, at) => {
    const reservation = takePlace(sql, at, firewall, claim)
    if (!reservation.granted) yieldPoolPlace(sql, at, firewall, claim)
    return reservation
  })
}
