import type { Artifact } from '../../contract/artifact.ts'
import type { Ask, AskAnswer } from '../../contract/ask.ts'
import type { EnvRequest, EnvSubmitted, SandboxEnv } from '../../contract/env.ts'
import { AppError } from '../../contract/error.ts'
import type { SessionEvent } from '../../contract/events.ts'
import { linkClose } from '../../contract/link.ts'
import type { Manifest } from '../../contract/manifest.ts'
import type { Session, SessionDiff } from '../../contract/session.ts'
import type { ToolCall } from '../../contract/tool.ts'
import type { PromptCreate, Turn } from '../../contract/turn.ts'
import { type Deadline, releaseTaken, setDeadline } from '../deadlines.ts'
import { abandonCalls, countActiveCalls, listCalls } from '../gateway/calls.ts'
import { addToOutbox, hasUnsent } from '../outbox.ts'
import { createSecretFinder } from '../redaction/finder.ts'
import { AgentLink, type LinkEnd } from './agent-link.ts'
import { Alarm } from './alarm.ts'
import type {
  CallAnswer,
  Caller,
  CreateSession,
  Page,
  SandboxCaller,
  SessionApi,
  ToolCallInput,
} from './api.ts'
import { listArtifacts, loadArtifact } from './artifacts.ts'
import { answerByPerson, denyOverdue, listAsks, viewAsk } from './asks.ts'
import { startAutomationRun } from './automation.ts'
import { CallRunner } from './call-runner.ts'
import { CommandDesk } from './command-desk.ts'
import { planSession } from './create.ts'
import { callerSession, openSandboxSession, sandboxSession } from './doors.ts'
import { currentDiff, submitEnv } from './sandbox-desk.ts'
import { listEnvRequests, sandboxEnv } from './env.ts'
import { finishErase } from './erasure.ts'
import { listEvents } from './events.ts'
import { Kernel } from './kernel.ts'
import { Lifecycle } from './lifecycle.ts'
import { sessionManifest } from './manifest.ts'
import { OutboxSender } from './outbox-sender.ts'
import type { SessionPorts } from './ports.ts'
import { insertSession } from './record.ts'
import { openValues, saveEnvValues, type SealedValue } from './secrets.ts'
import { TurnDesk } from './turn-desk.ts'
import { addModelUsage, type ModelUsage } from './usage.ts'
import { viewSession } from './view.ts'

/** One session, whole. The hosts around it only carry messages. */
export class SessionActor implements SessionApi {
  readonly #kernel: Kernel
  readonly #commands: CommandDesk
  readonly #link: AgentLink
  readonly #calls: CallRunner
  readonly #lifecycle: Lifecycle
  readonly #outbox: OutboxSender
  readonly #turns: TurnDesk
  readonly #alarm: Alarm

  constructor(ports: SessionPorts) {
    this.#kernel = new Kernel(ports)
    this.#commands = new CommandDesk(this.#kernel)
    this.#link = new AgentLink(this.#kernel, this.#commands)
    this.#calls = new CallRunner(this.#kernel, this.#commands)
    this.#lifecycle = new Lifecycle(this.#kernel, () => {
      this.#commands.wakeAll()
      this.#turns.wake()
    })
    this.#outbox = new OutboxSender(this.#kernel)
    this.#turns = new TurnDesk(this.#kernel)
    this.#link.onTurnsChanged = () => this.#turns.wake()
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
    if (sandboxState === 'ready' && !host.agentConnected()) this.#link.closed(generation)
  }

  // Doors for callers

  async create(create: CreateSession): Promise<Session> {
    if (this.#kernel.created) return this.view(create)
    const plan = await planSession(this.#kernel.ports, create)
    // Between the check and here the same request may have arrived twice.
    if (this.#kernel.created) return this.view(create)
    this.#kernel.commit((sql, now) => {
      this.#kernel.createTables()
      insertSession(sql, now, create, plan)
      saveEnvValues(sql, now, create.secrets ?? [])
      if (plan.mode === 'automation') {
        startAutomationRun(
          sql,
          now,
          create.input.automationRunId ?? `arn_${this.#kernel.ports.crypto.random(20)}`,
        )
      }
      if (plan.provider !== 'none') setDeadline(sql, 'sandbox.create', now)
    })
    await this.#kernel.crash('session.created')
    return this.view(create)
  }

  async view(caller: Pick<Caller, 'organisationId'>): Promise<Session> {
    callerSession(this.#kernel, caller)
    return this.#view()
  }

  async close(caller: Caller, reason: string): Promise<Session> {
    await this.#kernel.openSecrets()
    callerSession(this.#kernel, caller)
    this.#lifecycle.close(this.#kernel.redact(reason))
    return this.#view()
  }

  async erase(caller: Caller): Promise<void> {
    callerSession(this.#kernel, caller)
    this.#lifecycle.close('deleted')
    this.#kernel.commit((sql, now) => {
      sql.run(`update session set status = 'erased'`)
      addToOutbox(sql, now, 'session.erased', {})
      setDeadline(sql, 'erase', now)
    })
  }

  async replaceSandbox(caller: Caller, reason: string): Promise<Session> {
    await this.#kernel.openSecrets()
    const session = callerSession(this.#kernel, caller)
    if (session.status !== 'open')
      throw new AppError('wrong_state', 'Cannot replace the sandbox: session is closed')
    this.#lifecycle.replace(this.#kernel.redact(reason))
    return this.#view()
  }

  prompt(caller: Caller, input: PromptCreate, idempotencyKey: string | null): Promise<Turn> {
    return this.#turns.prompt(caller, input, idempotencyKey)
  }

  async turn(caller: Caller, turnId: string): Promise<Turn> {
    return this.#turns.turn(caller, turnId)
  }

  waitForTurn(caller: Caller, turnId: string, waitMs: number): Promise<Turn> {
    return this.#turns.wait(caller, turnId, waitMs)
  }

  async turns(caller: Caller, page: Page): Promise<{ items: Turn[]; next: number | null }> {
    return this.#turns.list(caller, page)
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

  async asks(caller: Caller): Promise<Ask[]> {
    const session = callerSession(this.#kernel, caller)
    return listAsks(this.#kernel.ports.sql, session.id)
  }

  async answerAsk(caller: Caller, askId: string, answer: AskAnswer): Promise<Ask> {
    await this.#kernel.openSecrets()
    const session = callerSession(this.#kernel, caller)
    const kept = this.#kernel.redact(answer)
    this.#kernel.commit((sql, now) =>
      this.#kernel.answer([answerByPerson(sql, now, askId, caller.keyId, kept)]),
    )
    return viewAsk(this.#kernel.ports.sql, session.id, askId)
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

  // Doors for the sandbox

  async authoriseSandbox(sandbox: SandboxCaller): Promise<void> {
    openSandboxSession(this.#kernel, sandbox)
  }

  async admitUpload(sandbox: SandboxCaller, bytes: Uint8Array): Promise<void> {
    openSandboxSession(this.#kernel, sandbox)
    const found = createSecretFinder(await this.#kernel.knownSecrets())().push(bytes)
    if (found !== null) throw new AppError('unprocessable', `Secret "${found}" is in the file`)
  }

  async manifest(sandbox: SandboxCaller): Promise<Manifest> {
    return sessionManifest(this.#kernel.ports, openSandboxSession(this.#kernel, sandbox))
  }

  callTool(sandbox: SandboxCaller, call: ToolCallInput): Promise<CallAnswer> {
    return this.#calls.call(sandbox, call)
  }

  async sandboxEnv(sandbox: SandboxCaller): Promise<SandboxEnv> {
    const { envFiles } = openSandboxSession(this.#kernel, sandbox)
    const { sql, crypto } = this.#kernel.ports
    return sandboxEnv(await openValues(sql, crypto), envFiles)
  }

  async addModelUsage(sandbox: SandboxCaller, usage: ModelUsage): Promise<void> {
    sandboxSession(this.#kernel, sandbox)
    this.#kernel.commit((sql) => addModelUsage(sql, usage))
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
      ask: () => this.#kernel.commit((sql, now) => this.#kernel.answer(denyOverdue(sql, now))),
      'turn.abort': () => this.#turns.onAbortOverdue(),
      'sandbox.create': () => this.#lifecycle.onCreate(attempt),
      'sandbox.boot': () => this.#lifecycle.onBoot(),
      'sandbox.look': () => this.#lifecycle.onLook(),
      'sandbox.check': () => this.#lifecycle.onCheck(),
      'sandbox.stop': () => this.#lifecycle.onStop(Number(argument)),
      close: () => this.#lifecycle.close('The automation run is completed'),
      purge: () => this.erase({ organisationId, keyId: 'retention' }),
      erase: () => finishErase(this.#kernel, this.#lifecycle, this.#outbox),
    }
    return work[kind ?? '']?.()
  }

  #view(): Session {
    const { sql, now, host } = this.#kernel.ports
    return viewSession(sql, now(), host.agentConnected())
  }
}
