import { Alarm } from '../actor/alarm.ts'
import { meetingsOf } from '../actor/room.ts'
import { createBudgets } from './budgets.ts'
import { createCreations } from './creations.ts'
import { createDeployment, DeploymentWatch } from './deployment.ts'
import { createFirewall } from './firewall/firewall.ts'
import { createOutbox } from './outbox.ts'
import { createPools } from './pools/pools.ts'
import type { OrganisationApi } from './record/api.ts'
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
    const watch = new DeploymentWatch(kernel)
    const shutdown = new Shutdown(kernel)
    const creations = createCreations(kernel)
    const sandboxes = createSandboxes(kernel, watch, shutdown)
    const firewall = createFirewall(kernel)
    const budgets = createBudgets(kernel)
    const pools = createPools(kernel)
    const deployment = createDeployment(kernel, watch, shutdown)
    const outbox = createOutbox(kernel)
    const uploads = createUploads(kernel)
    this.api = {
      creations: creations.api,
      sandboxes: sandboxes.api,
      firewall: firewall.api,
      budgets: budgets.api,
      pools: pools.api,
      deployment: deployment.api,
      letters: outbox.api,
      uploads: uploads.api,
    }
    const rooms = [creations, sandboxes, firewall, budgets, pools, deployment, outbox, uploads]
    const meetings = meetingsOf(rooms)
    kernel.enter(rooms, new Set(meetings.keys()))
    this.#alarm = new Alarm(kernel, meetings)
    if (kernel.created) kernel.recover()
  }

  /** The host's alarm has fired. */
  runDue(): Promise<void> {
    return this.#alarm.fired()
  }
}
