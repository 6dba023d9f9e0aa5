import type { Amounts, Budget, SharedBudgetView } from '../../contract/budget.ts'
import type {
  DeploymentKillSwitch,
  KillSwitch,
  KillSwitchChange,
} from '../../contract/kill-switch.ts'
import {
  type LimitsChange,
  type LimitsView,
  listPricesAsOf,
  type WorstCase,
} from '../../contract/limits.ts'
import { Alarm } from '../alarm.ts'
import type { Deadline } from '../deadlines.ts'
import type { Sql } from '../ports.ts'
import type {
  BudgetAnswer,
  BudgetClaim,
  DeploymentSwitch,
  OrganisationApi,
  Reservation,
  SandboxClaim,
  SandboxEnd,
  WarmPoolApi,
} from './api.ts'
import { warmPoolDoors } from './api.ts'
import { lendDoors } from '../sessions/lend-doors.ts'
import { listBreakers } from './breaker.ts'
import { returnBudget, saveSharedBudget, takeBudget, viewSharedBudget } from './budgets.ts'
import { claimCreation, claimRun, endCreation, releaseRun } from './creations.ts'
import {
  admitOrganisation,
  DeploymentWatch,
  tellMembers,
  viewDeploymentSwitch,
} from './deployment.ts'
import { sandboxConnected, sandboxEnded } from './endings.ts'
import { OrganisationKernel } from './kernel.ts'
import { KillDesk } from './kill-desk.ts'
import { changeSwitch, killReason, viewSwitch } from './kill-switch.ts'
import { sendLedger, verifyLedger } from './ledger-sender.ts'
import {
  deploymentLimits,
  effectiveLimits,
  loadLimits,
  pricesOf,
  refuseAbove,
  saveLimits,
  usageOf,
} from './limits.ts'
import type { OrganisationPorts } from './ports.ts'
import { Reconciler } from './reconciler.ts'
import { refuse } from './refusal.ts'
import { reserveSandbox } from './reserve.ts'
import { yieldPlace } from './warm-growth.ts'
import { WarmPools } from './warm-pool.ts'
import { worstCase } from './worst-case.ts'

const unreachableRetryMs = 5000

// oxlint-disable-next-line no-unsafe-declaration-merging -- the constructor lends every one of them
export interface OrganisationActor extends WarmPoolApi {}
/** One organisation, or the deployment as a whole. The hosts around it only carry messages. */
// oxlint-disable-next-line no-unsafe-declaration-merging -- as above
export class OrganisationActor implements OrganisationApi {
  readonly #kernel: OrganisationKernel
  readonly #deployment: DeploymentWatch
  readonly #reconciler: Reconciler
  readonly #kill: KillDesk
  readonly #warm: WarmPools
  readonly #alarm: Alarm

  constructor(ports: OrganisationPorts) {
    this.#kernel = new OrganisationKernel(ports)
    this.#deployment = new DeploymentWatch(this.#kernel)
    this.#reconciler = new Reconciler(this.#kernel)
    this.#kill = new KillDesk(this.#kernel, this.#reconciler)
    this.#warm = new WarmPools(this.#kernel)
    lendDoors<WarmPoolApi>(this, this.#warm, warmPoolDoors)
    this.#alarm = new Alarm(this.#kernel, (deadline) => this.#meet(deadline))
  }

  // What belongs to one session of all

  async claimCreation(key: string, bodyHash: string, freshSessionId: string): Promise<string> {
    const creation = { key, bodyHash, freshSessionId }
    return this.#kernel.commit((sql, now) => claimCreation(sql, now, creation))
  }

  async endCreation(sessionId: string): Promise<void> {
    this.#kernel.commit((sql) => endCreation(sql, sessionId))
  }

  async claimRun(runId: string, sessionId: string): Promise<void> {
    this.#kernel.commit((sql) => claimRun(sql, runId, sessionId))
  }

  async releaseRun(runId: string, sessionId: string): Promise<void> {
    this.#kernel.commit((sql) => releaseRun(sql, runId, sessionId))
  }

  // Sandboxes

  async reserveSandbox(claim: SandboxClaim): Promise<Reservation> {
    const { log, now, firewall } = this.#kernel.ports
    try {
      await this.#deployment.refresh()
    } catch (error) {
      log('warn', 'Cannot ask the kill switch of the deployment', { error: String(error) })
      const why = 'the kill switch of the deployment cannot be asked'
      return refuse(why, now() + unreachableRetryMs)
    }
    return this.#kernel.commit((sql, at) => {
      const reservation = reserveSandbox(sql, at, firewall, claim)
      if (!reservation.granted) yieldPlace(sql, at, firewall, claim)
      return reservation
    })
  }

  async sandboxConnected(sessionId: string, generation: number): Promise<void> {
    this.#kernel.commit((sql, now) => sandboxConnected(sql, now, sessionId, generation))
  }

  async sandboxEnded(sessionId: string, generation: number, end: SandboxEnd): Promise<void> {
    const said = { sessionId, generation, end }
    this.#kernel.commit((sql, now) => sandboxEnded(this.#kernel, sql, now, said))
  }

  // Limits and switches

  async limits(project: string | null): Promise<LimitsView> {
    return this.#kernel.read((sql, now) => this.#viewLimits(sql, now, project))
  }

  async setLimits(
    project: string | null,
    change: LimitsChange,
    actor: string,
  ): Promise<LimitsView> {
    if (project === null) refuseAbove(this.#kernel.ports.firewall, change)
    this.#kernel.commit((sql, now) => saveLimits(sql, now, project, change, actor))
    return this.limits(project)
  }

  async worstCase(project: string | null): Promise<WorstCase> {
    const { firewall } = this.#kernel.ports
    const limits = this.#kernel.read((sql) => effectiveLimits(sql, firewall, project))
    return worstCase(firewall, limits, project)
  }

  // Budgets

  async takeBudget(claim: BudgetClaim): Promise<BudgetAnswer> {
    return this.#kernel.commit((sql) => takeBudget(sql, claim))
  }

  async returnBudget(sessionId: string, number: number, spent: Amounts): Promise<void> {
    this.#kernel.commit((sql) => returnBudget(sql, sessionId, number, spent))
  }

  async budget(project: string | null): Promise<SharedBudgetView> {
    return this.#kernel.read((sql) => viewSharedBudget(sql, project))
  }

  async setBudget(project: string | null, limits: Budget, actor: string) {
    this.#kernel.commit((sql) => saveSharedBudget(sql, project ?? '', limits, actor))
    return this.budget(project)
  }

  async killSwitch(): Promise<KillSwitch> {
    return this.#kernel.read(viewSwitch)
  }

  async setKillSwitch(change: KillSwitchChange, actor: string): Promise<KillSwitch> {
    this.#kernel.commit((sql, now) => changeSwitch(sql, now, change, actor))
    return this.killSwitch()
  }

  async hearDeployment(news: DeploymentSwitch): Promise<void> {
    this.#deployment.hear(news)
  }

  // The deployment's object

  async admitOrganisation(organisationId: string): Promise<DeploymentSwitch> {
    return this.#kernel.commit((sql) => admitOrganisation(sql, organisationId))
  }

  async deploymentKillSwitch(): Promise<DeploymentKillSwitch> {
    return this.#kernel.read(viewDeploymentSwitch)
  }

  // The host's door: the alarm

  runDue(): Promise<void> {
    return this.#alarm.fired()
  }

  #meet({ name, attempt }: Deadline): void | Promise<void> {
    const work: Record<string, () => void | Promise<void>> = {
      reconcile: () => this.#reconciler.onDeadline(),
      kill: () => this.#kill.onDeadline(attempt),
      tell: () => tellMembers(this.#kernel, attempt),
      warm: () => this.#warm.onDeadline(),
      outbox: () => sendLedger(this.#kernel),
      'outbox.verify': () => verifyLedger(this.#kernel),
    }
    return work[name]?.()
  }

  #viewLimits(sql: Sql, now: number, project: string | null): LimitsView {
    const { firewall } = this.#kernel.ports
    return {
      project,
      limits: effectiveLimits(sql, firewall, project),
      set: loadLimits(sql, project),
      defaults: deploymentLimits(firewall),
      usage: usageOf(sql, now, project),
      breakers: listBreakers(sql, now),
      prices: pricesOf(firewall),
      pricesAsOf: listPricesAsOf,
      killed: killReason(sql) !== null,
    }
  }
}
