import { type Alarm, alarmOfRooms } from '../actor/alarm.ts'
import type { ApiOf } from '../actor/room.ts'
import { createBudgets } from './budgets.ts'
import { createCreations } from './creations.ts'
import { createDeployment, DeploymentWatch } from './deployment.ts'
import { createFirewall } from './firewall/firewall.ts'
import { createOutbox } from './outbox.ts'
import { createPools } from './pools/pools.ts'
import { OrganisationKernel } from './record/kernel.ts'
import type { OrganisationPorts } from './record/ports.ts'
import { createSandboxes } from './sandboxes.ts'
import { Shutdown } from './shutdown.ts'
import { createUploads } from './uploads.ts'

/**
 * One organisation, or the deployment as a whole: a list of rooms over one kernel. Callers ask through `api`; the hosts
 * around it only carry messages and call `runDue`.
 */
export class OrganisationActor {
  readonly api: OrganisationApi
  readonly #alarm: Alarm

  constructor(ports: OrganisationPorts) {
    const kernel = new OrganisationKernel(ports)
    const { api, alarm } = alarmOfRooms(kernel, createRooms(kernel))
    this.api = api
    this.#alarm = alarm
    if (kernel.created) kernel.recover()
  }

  /** The host's alarm has fired. */
  runDue(): Promise<void> {
    return this.#alarm.fired()
  }
}

/** What callers may ask of an organisation, by room: it is the only place that decides across its sessions. */
export type OrganisationApi = ApiOf<ReturnType<typeof createRooms>>

/** Each room once, under the name by which callers ask it. In this order they hear of a commit. */
function createRooms(kernel: OrganisationKernel) {
  const watch = new DeploymentWatch(kernel)
  const shutdown = new Shutdown(kernel)
  return {
    creations: createCreations(kernel),
    sandboxes: createSandboxes(kernel, watch, shutdown),
    firewall: createFirewall(kernel),
    budgets: createBudgets(kernel),
    pools: createPools(kernel),
    deployment: createDeployment(kernel, watch, shutdown),
    letters: createOutbox(kernel),
    uploads: createUploads(kernel),
  }
}
