import type { Artifact } from '../../contract/artifact.ts'
import type { EnvRequest, EnvSubmitted } from '../../contract/env.ts'
import { AppError } from '../../contract/error.ts'
import type { SessionEvent } from '../../contract/events.ts'
import { linkClose } from '../../contract/link.ts'
import type { Session, SessionDiff } from '../../contract/session.ts'
import type { ToolCall } from '../../contract/tool.ts'
import { Alarm } from '../alarm.ts'
import { type Deadline, releaseTaken } from '../deadlines.ts'
import { countActiveCalls, listCalls } from '../gateway/call-list.ts'
import { abandonCalls } from '../gateway/calls.ts'
import { hasUnsent } from '../outbox.ts'
import {
  type ApprovalApi,
  approvalDoors,
  type OperationApi,
  operationDoors,
  type RunApi,
  runDoors,
} from '../runs/api.ts'
import { ApprovalDesk } from '../runs/approval-desk.ts'
import { OperationDesk } from '../runs/operation-desk.ts'
import { RunDesk } from '../runs/run-desk.ts'
import { WebhookDesk } from '../webhooks/desk.ts'
import { lendDoors } from './lend-doors.ts'
import { AgentLink, type LinkEnd } from './agent-link.ts'
import {
  type BudgetApi,
  budgetDoors,
  type CreateSession,
  type PolicyApi,
  policyDoors,
  type SandboxApi,
  sandboxDoors,
  type SessionApi,
  type TurnApi,
  turnDoors,
  type WarmApi,
  warmDoors,
} from './api.ts'
import type { Caller, Page, SandboxCaller } from './caller.ts'
import { listArtifacts, loadArtifact } from './artifacts.ts'
import { CallRunner } from './call-runner.ts'
import { CommandDesk } from './command-desk.ts'
import { createSession } from './create.ts'
import { callerSession } from './doors.ts'
import { currentDiff, submitEnv } from './sandbox-desk.ts'
import { listEnvRequests } from './env.ts'
import { beginErase, finishErase } from './erasure.ts'
import { listEvents } from './events.ts'
import { haltSandbox } from './halt.ts'
import { Kernel } from './kernel.ts'
import { OutboxSender } from './outbox-sender.ts'
import type { SessionPorts } from './ports.ts'
import { SandboxLife } from './sandbox-life.ts'
import type { SealedValue } from './secrets.ts'
import { TurnDesk } from './turn-desk.ts'
import { SandboxDoors } from './sandbox-doors.ts'
import { SessionPolicy } from './session-policy.ts'
import { BudgetDesk } from './budget-desk.ts'
import { GateDesk } from './gate-desk.ts'
import { viewSession } from './view.ts'
import { WarmDesk } from './warm-desk.ts'

/** The doors that its desks lend it. */
// oxlint-disable-next-line no-unsafe-declaration-merging -- the constructor lends every one of them
export interface SessionActor
  extends SandboxApi, WarmApi, TurnApi, BudgetApi, PolicyApi, RunApi, ApprovalApi, OperationApi {}
/** One session, whole. The hosts around it only carry messages. */
// oxlint-disable-next-line no-unsafe-declaration-merging -- as above
export class SessionActor implements SessionApi {
  readonly #kernel: Kernel
  readonly #commands: CommandDesk
  readonly #link: AgentLink
  readonly #calls: CallRunner
  readonly #sandbox: SandboxLife
  readonly #outbox: OutboxSender
  readonly #turns: TurnDesk
  readonly #gate: GateDesk
  readonly #budget: BudgetDesk
  readonly #approvals: ApprovalDesk
  readonly #webhooks: WebhookDesk
  readonly #operations: OperationDesk
  readonly #warm: WarmDesk
  readonly #alarm: Alarm

  constructor(ports: SessionPorts) {
    this.#kernel = new Kernel(ports)
    this.#commands = new CommandDesk(this.#kernel)
    const policy = new SessionPolicy(this.#kernel)
    this.#budget = new BudgetDesk(this.#kernel, () => {
      this.#gate.decideParked()
      this.#turns.startQueued()
    })
    this.#operations = new OperationDesk(this.#kernel, this.#commands, policy, this.#budget)
    this.#gate = new GateDesk(this.#kernel, policy, this.#budget)
    this.#link = new AgentLink(this.#kernel, this.#commands, this.#gate, this.#operations)
    this.#calls = new CallRunner(this.#kernel, this.#commands)
    this.#sandbox = new SandboxLife(this.#kernel, () => {
      this.#calls.dropFenced()
      this.#commands.wakeAll()
      this.#turns.wake()
    })
    this.#outbox = new OutboxSender(this.#kernel)
    this.#turns = new TurnDesk(this.#kernel, this.#budget)
    this.#link.onTurnsChanged = () => this.#turns.wake()
    this.#approvals = new ApprovalDesk(this.#kernel, () => this.#gate.decideParked())
    this.#webhooks = new WebhookDesk(this.#kernel)
    const sandbox = new SandboxDoors(this.#kernel, this.#calls, this.#gate)
    this.#warm = new WarmDesk(this.#kernel, () => policy.changed())
    lendDoors<SandboxApi>(this, sandbox, sandboxDoors)
    lendDoors<WarmApi>(this, this.#warm, warmDoors)
    lendDoors<TurnApi>(this, this.#turns, turnDoors)
    lendDoors<PolicyApi>(this, this.#gate, policyDoors)
    lendDoors<BudgetApi>(this, this.#budget, budgetDoors)
    lendDoors<ApprovalApi>(this, this.#approvals, approvalDoors)
    lendDoors<OperationApi>(this, this.#operations, operationDoors)
    lendDoors<RunApi>(this, new RunDesk(this.#kernel, () => this.#turns.wake()), runDoors)
    this.#alarm = new Alarm(this.#kernel, (deadline) => this.#meet(deadline))
    if (this.#kernel.created) this.#recover()
  }

  /** What the instance before this one may have left: work that it had begun, rows unsent, a link that died with it. */
  #recover(): void {
    const { sql, now, host } = this.#kernel.ports
    const released = releaseTaken(sql, now(), this.#kernel.instance)
    if (released || hasUnsent(sql)) this.#kernel.commit(() => {})
    const { status, sandboxState, generation } = this.#kernel.session()
    if (status !== 'open' && countActiveCalls(sql) > 0)
      this.#kernel.commit((sql, at) => abandonCalls(sql, at, this.#kernel.instance))
    this.#calls.dropFenced()
    if (sandboxState === 'ready' && !host.agentConnected()) this.#link.closed(generation)
  }

  // Doors for callers

  async create(create: CreateSession): Promise<Session> {
    if (this.#kernel.created) return this.view(create)
    await createSession(this.#kernel, create)
    return this.view(create)
  }

  async view(caller: Pick<Caller, 'organisationId'>): Promise<Session> {
    callerSession(this.#kernel, caller)
    return this.#view()
  }

  async close(caller: Caller, reason: string): Promise<Session> {
    await this.#kernel.openSecrets()
    callerSession(this.#kernel, caller)
    this.#sandbox.ending.close(this.#kernel.redact(reason))
    return this.#view()
  }

  async erase(caller: Caller): Promise<void> {
    callerSession(this.#kernel, caller)
    this.#sandbox.ending.close('deleted')
    beginErase(this.#kernel)
  }

  async replaceSandbox(caller: Caller, reason: string): Promise<Session> {
    await this.#kernel.openSecrets()
    const session = callerSession(this.#kernel, caller)
    if (session.status !== 'open')
      throw new AppError('wrong_state', 'Cannot replace the sandbox: session is closed')
    this.#sandbox.lifecycle.replace(this.#kernel.redact(reason))
    return this.#view()
  }

  async retrySandbox(caller: Caller, reason: string): Promise<Session> {
    await this.#kernel.openSecrets()
    const session = callerSession(this.#kernel, caller)
    if (session.status !== 'open')
      throw new AppError('wrong_state', 'Cannot start the sandbox again: session is closed')
    this.#sandbox.lifecycle.retry(this.#kernel.redact(reason))
    return this.#view()
  }

  async haltSandbox(sandbox: SandboxCaller, reason: string): Promise<void> {
    await haltSandbox(this.#kernel, sandbox, reason)
    this.#commands.wakeAll()
    this.#turns.wake()
  }

  async checkSandbox(sandbox: SandboxCaller): Promise<void> {
    const { generation } = callerSession(this.#kernel, sandbox)
    if (generation === sandbox.generation) await this.#sandbox.lifecycle.verify()
  }

  async abort(caller: Caller): Promise<Session> {
    this.#turns.abort(caller)
    return this.#view()
  }

  async events(caller: Caller, after: number, limit: number): Promise<SessionEvent[]> {
    callerSession(this.#kernel, caller)
    return listEvents(this.#kernel.ports.sql, after, limit)
  }

  async calls(caller: Caller, page: Page): Promise<{ items: ToolCall[]; next: number | null }> {
    callerSession(this.#kernel, caller)
    return listCalls(this.#kernel.ports.sql, page)
  }

  diff(caller: Caller): Promise<SessionDiff> {
    return currentDiff(this.#kernel, this.#commands, callerSession(this.#kernel, caller))
  }

  async artifacts(caller: Caller): Promise<Artifact[]> {
    callerSession(this.#kernel, caller)
    return listArtifacts(this.#kernel.ports.sql)
  }

  async envRequests(caller: Caller): Promise<EnvRequest[]> {
    callerSession(this.#kernel, caller)
    return listEnvRequests(this.#kernel.ports.sql)
  }

  async submitEnv(caller: Caller, values: SealedValue[]): Promise<EnvSubmitted['sandbox']> {
    return submitEnv(this.#kernel, this.#commands, callerSession(this.#kernel, caller), values)
  }

  async artifact(caller: Caller, artifactId: string): Promise<Artifact> {
    callerSession(this.#kernel, caller)
    return loadArtifact(this.#kernel.ports.sql, artifactId)
  }

  // The host's doors: sockets and the alarm

  checkWatcher(caller: Pick<Caller, 'organisationId'>): void {
    callerSession(this.#kernel, caller)
  }

  /** What is committed from now on is published; what was before is for the watcher to read. */
  watchStarted(): void {
    this.#kernel.watchStarted()
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

  #meet({ name, attempt }: Deadline): void | Promise<void> {
    const [kind, argument] = name.split(':')
    const { organisationId } = this.#kernel.session()
    const work: Record<string, () => void | Promise<void>> = {
      outbox: () => this.#outbox.onDeadline(),
      'outbox.verify': () => this.#outbox.onVerify(),
      approval: () => this.#approvals.onDeadline(),
      webhook: () => this.#webhooks.onDeadline(argument),
      budget: () => this.#budget.onClock(),
      'budget.ask': () => this.#gate.onPatience(),
      slice: () => this.#budget.onSlice(),
      'slice.return': () => this.#budget.onReturn(),
      attempt: () => this.#operations.onDeadline(argument ?? ''),
      'turn.abort': () => this.#turns.onAbortOverdue(),
      ...this.#sandbox.deadlines(Number(argument), attempt),
      warm: () => this.#warm.onDeadline(),
      'warm.end': () => this.#warm.onEnd(),
      close: () => this.#sandbox.ending.close('The automation run is completed'),
      purge: () => this.erase({ organisationId, keyId: 'retention', owner: '' }),
      erase: () => this.#erase(),
    }
    return work[kind ?? '']?.()
  }

  /** What it holds of its organisation's budget goes back first: nobody could return it afterwards. */
  async #erase(): Promise<void> {
    await this.#budget.onReturn()
    await finishErase(this.#kernel, this.#sandbox.ending, this.#outbox)
  }

  #view(): Session {
    const { sql, now, host } = this.#kernel.ports
    return viewSession(sql, now(), host.agentConnected())
  }
}
