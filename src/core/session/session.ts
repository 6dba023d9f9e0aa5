import { linkClose } from '../../contract/link.ts'
import { type Alarm, alarmOfRooms } from '../actor/alarm.ts'
import type { ApiOf } from '../actor/room.ts'
import { Abilities } from './abilities/abilities.ts'
import { abilitiesForModel } from './abilities/for-model.ts'
import { Approvals } from './approvals/approvals.ts'
import { listApprovals } from './approvals/rows.ts'
import { Artifacts } from './artifacts/artifacts.ts'
import { completeAutomationRun, decideAutomationRun } from './automation/automation.ts'
import { SessionBudget } from './budget/budget.ts'
import { followSpending } from './budget/spending.ts'
import { Calls } from './calls/calls.ts'
import { countActiveCalls, abandonCalls } from './calls/rows.ts'
import type { GatewayTool } from './calls/tools/tool.ts'
import { Uploads } from './calls/uploads.ts'
import { Changes } from './changes/changes.ts'
import { Commands } from './commands/commands.ts'
import { planSession } from './create.ts'
import { EnvValues } from './env/env.ts'
import { Evals } from './evals/evals.ts'
import { Evidence } from './evidence/evidence.ts'
import { Gate } from './gate/gate.ts'
import { SessionPolicy } from './gate/policy.ts'
import { Sandbox } from './sandbox/sandbox.ts'
import { putOffAfterSuspension } from './sandbox/suspension.ts'
import { Agent } from './link/agent.ts'
import { Link, type LinkEnd } from './link/link.ts'
import { Log } from './log/log.ts'
import { Models } from './models/models.ts'
import { attemptsOfRun } from './operations/attempts.ts'
import { Operations } from './operations/operations.ts'
import { Offers } from './offers/offers.ts'
import { Letters } from './outbox/letters.ts'
import { Outbox } from './outbox/outbox.ts'
import { guardSession, type SessionCaller } from './record/guards.ts'
import { SessionKernel } from './record/kernel.ts'
import type { SessionPorts } from './record/ports.ts'
import { Phases } from './phases/phases.ts'
import { Runs } from './runs/runs.ts'
import { Self } from './self.ts'
import { Skills } from './skills/skills.ts'
import { stopRun } from './steps/stop-run.ts'
import { Turns } from './turns/turns.ts'
import { Upstreams } from './upstreams/upstreams.ts'
import { viewSession } from './view.ts'
import { Warm } from './warm/warm.ts'
import { Webhooks } from './webhooks/webhooks.ts'

export interface SessionParts extends SessionPorts {
  tools: readonly GatewayTool[]
}

/**
 * One session, whole: a list of rooms over one kernel. Callers ask through `api`; the hosts around it bring the agent's
 * socket, the watchers' sockets and the alarm, and decide nothing.
 */
export class SessionActor {
  readonly api: SessionApi
  readonly #kernel: SessionKernel
  readonly #link: Link
  readonly #log: Log
  readonly #alarm: Alarm

  constructor(ports: SessionParts) {
    const kernel = new SessionKernel(ports)
    const named = createRooms(kernel, ports.tools)
    const { api, alarm } = alarmOfRooms(kernel, named, (deadline) =>
      putOffAfterSuspension(kernel, deadline),
    )
    this.api = api
    this.#alarm = alarm
    this.#kernel = kernel
    this.#log = named.log
    this.#link = new Link(kernel, named)
    if (kernel.created) this.#recover()
  }

  /** What the instance before this one may have left: work that it had begun, rows unsent, a link that died with it. */
  #recover(): void {
    const { sql, host } = this.#kernel.ports
    const { status, sandboxState, generation } = this.#kernel.session()
    if (status !== 'open' && countActiveCalls(sql) > 0)
      this.#kernel.commit((sql, at) => abandonCalls(sql, at, this.#kernel.instance))
    // Before anything is armed: if this cannot be written, the host comes back later instead of at once, for ever.
    if (sandboxState === 'ready' && !host.agentConnected()) this.#link.closed(generation)
    this.#kernel.recover()
  }

  /** Throws unless the session is the caller's. */
  checkWatcher(caller: SessionCaller): void {
    guardSession(this.#kernel, caller)
  }

  /** What is committed from now on is published; what was before is for the watcher to read. */
  watchStarted(): void {
    this.#log.watchStarted()
  }

  /** An expired token of the current generation buys a new one and nothing else. */
  async newToken(generation: number): Promise<string> {
    return JSON.stringify(await this.#link.newToken(generation))
  }

  /** Never throws: the link must end then, since what was in the message is sent again only on a new one. */
  async receive(generation: number, text: string): Promise<LinkEnd | null> {
    try {
      return await this.#link.receive(generation, text)
    } catch (error) {
      this.#kernel.ports.log('error', 'A link failed', { generation, error: String(error) })
      return { code: linkClose.broke, reason: 'Connect again' }
    }
  }

  linkClosed(generation: number): void {
    this.#link.closed(generation)
  }

  runDue(): Promise<void> {
    return this.#alarm.fired()
  }
}

/**
 * What callers may ask of one session, by room. Both hosts offer exactly this; refusals are thrown as AppError. Every
 * method may be called again with the same arguments.
 */
export type SessionApi = ApiOf<ReturnType<typeof createRooms>>

/**
 * Each room once, under the name by which callers ask it. In this order they hear of a commit: events are published before
 * commands are sent, and rows leave last.
 */
function createRooms(kernel: SessionKernel, tools: readonly GatewayTool[]) {
  const view = () => viewSession(kernel)
  const commands = new Commands(kernel)
  const outbox = new Outbox(kernel)
  const policy = new SessionPolicy(kernel)
  const budget: SessionBudget = new SessionBudget(kernel, () => {
    gate.decideParked()
    turns.startQueued()
    abilities.goOn()
  })
  const gate = new Gate(kernel, policy, budget)
  const turns = new Turns(kernel, budget)
  const sandbox = new Sandbox(kernel, view)
  const uploads = new Uploads(kernel)
  const offers = new Offers(kernel, commands)
  const operations = new Operations(kernel, commands, policy, budget)
  const abilities = new Abilities(kernel, { operations, policy, budget, stopRun })
  const calls = new Calls(
    kernel,
    commands,
    tools,
    { complete: completeAutomationRun, decide: decideAutomationRun },
    abilitiesForModel(kernel, abilities, offers),
  )
  return {
    log: new Log(kernel),
    commands,
    self: new Self(kernel, {
      abort: turns.abort,
      giveBackBudget: budget.giveBack,
      stopSandboxes: sandbox.stopAll,
      drainOutbox: outbox.drain,
      forgetAnswers: calls.forget,
      forgetUploads: uploads.forget,
    }),
    sandbox,
    turns,
    runs: new Runs(kernel, {
      approvals: listApprovals,
      attempts: attemptsOfRun,
      followBudget: followSpending,
      stop: stopRun,
    }),
    approvals: new Approvals(kernel, gate),
    operations,
    evals: new Evals(kernel, policy, operations),
    abilities,
    gate,
    phases: new Phases(kernel, policy),
    budget,
    calls,
    warm: new Warm(kernel, { plan: planSession, adopted: policy.changed, view }),
    artifacts: new Artifacts(kernel),
    skills: new Skills(kernel),
    offers,
    changes: new Changes(kernel, commands),
    env: new EnvValues(kernel, commands),
    evidence: new Evidence(kernel, operations, budget),
    letters: new Letters(kernel, outbox),
    models: new Models(kernel, budget),
    agent: new Agent(kernel, gate, uploads),
    uploads,
    upstreams: new Upstreams(kernel),
    webhooks: new Webhooks(kernel),
    outbox,
  }
}
