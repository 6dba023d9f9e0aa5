import { listPricesAsOf, type LimitsView } from '../../../contract/limits.ts'
import type { Sql } from '../../ports.ts'
import { hideSecretLike } from '../../redaction/redaction.ts'
import type { RoomOf } from '../../actor/room.ts'
import type { FirewallApi } from '../record/api.ts'
import type { OrganisationKernel } from '../record/kernel.ts'
import { listBreakers } from './breaker.ts'
import { KillSwitch } from './kill-switch.ts'
import {
  deploymentLimits,
  effectiveLimits,
  loadFirewallLimits,
  limitPrices,
  refuseLimitsAbove,
  saveFirewallLimits,
  limitsUsage,
} from './limits.ts'
import { Reconciler } from './reconciler.ts'
import { changeSwitch, killSwitchReason, viewSwitch } from './switches.ts'
import { worstCase } from './worst-case.ts'

/**
 * The room of everything that bounds sandboxes: limits and their worst case, breaker, kill switch and reconciler.
 * It promises that what runs at a provider never exceeds the limits for longer than
 * the reconciler needs to find it. Places are given by sandboxes.ts, which asks other rooms as well.
 */
export function createFirewall(kernel: OrganisationKernel): RoomOf<FirewallApi> {
  const { firewall } = kernel.ports
  const reconciler = new Reconciler(kernel)
  const killSwitch = new KillSwitch(kernel, reconciler)
  const api: FirewallApi = {
    limits: async (project) => kernel.read((sql, now) => viewLimits(kernel, sql, now, project)),
    async setLimits(project, change, actor) {
      if (project === null) refuseLimitsAbove(firewall, change)
      kernel.commit((sql, now) => saveFirewallLimits(sql, now, project, change, actor))
      return api.limits(project)
    },
    async worstCase(project) {
      const limits = kernel.read((sql) => effectiveLimits(sql, firewall, project))
      return worstCase(firewall, limits, project)
    },
    killSwitch: async () => kernel.read(viewSwitch),
    killReason: async () => kernel.read(killSwitchReason),
    async setKillSwitch(change, actor) {
      kernel.commit((sql, now) => changeSwitch(sql, now, hideSecretLike(change), actor))
      return api.killSwitch()
    },
  }
  return {
    api,
    deadlines: {
      reconcile: () => reconciler.onDeadline(),
      kill: (_argument, attempt) => killSwitch.onDeadline(attempt),
    },
  }
}

function viewLimits(
  { ports: { firewall } }: OrganisationKernel,
  sql: Sql,
  now: number,
  project: string | null,
): LimitsView {
  return {
    project,
    limits: effectiveLimits(sql, firewall, project),
    set: loadFirewallLimits(sql, project),
    defaults: deploymentLimits(firewall),
    usage: limitsUsage(sql, now, project),
    breakers: listBreakers(sql, now),
    prices: limitPrices(firewall),
    pricesAsOf: listPricesAsOf,
    killed: killSwitchReason(sql) !== null,
  }
}
