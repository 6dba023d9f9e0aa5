import type { Artifact } from '../../contract/artifact.ts'
import type { Ask, AskAnswer } from '../../contract/ask.ts'
import { AppError } from '../../contract/error.ts'
import type { SessionEvent } from '../../contract/events.ts'
import { linkClose } from '../../contract/link.ts'
import type { Manifest } from '../../contract/manifest.ts'
import type { Session, SessionDiff } from '../../contract/session.ts'
import type { ToolCall } from '../../contract/tool.ts'
import { type PromptCreate, type Turn, turnEnds } from '../../contract/turn.ts'
import { type Deadline, setDeadline, takeDue } from '../deadlines.ts'
import { listCalls } from '../gateway/calls.ts'
import { addToOutbox } from '../outbox.ts'
import { buildManifest } from '../sandboxes/manifest.ts'
import { AgentLink, type LinkEnd } from './agent-link.ts'
import type { CallAnswer, Caller, CreateSession, Page, SandboxCaller, SessionApi, ToolCallInput } from './api.ts'
import { listArtifacts, loadArtifact, loadDiff, saveDiff } from './artifacts.ts'
import { answerByPerson, denyOpenAsks, denyOverdue, listAsks, viewAsk } from './asks.ts'
import { CallRunner } from './call-runner.ts'
import { forgetCommand } from './commands.ts'
import { listEvents } from './events.ts'
import { Kernel } from './kernel.ts'
import { Lifecycle } from './lifecycle.ts'
import { OutboxSender } from './outbox-sender.ts'
import type { SessionPorts } from './ports.ts'
import { insertSession, type SessionRecord, viewSession } from './record.ts'
import {
  addTurn,
  endTurnHere,
  findPromptKey,
  listTurns,
  loadTurn,
  requestAbort,
  runningTurn,
  savePromptKey,
  startNextTurn,
  steerTurn,
} from './turns.ts'

/** If the work of a deadline dies, it comes back after this time. */
const leaseMs = 60_000
const liveDiffMs = 10_000

/** One session, whole. The hosts around it only carry messages. */
export class SessionActor implements SessionApi {
  readonly #kernel: Kernel
  readonly #link: AgentLink
  readonly #calls: CallRunner
  readonly #lifecycle: Lifecycle
  readonly #outbox: OutboxSender
  #turnWaiters = new Set<() => void>()

  constructor(ports: SessionPorts) {
    this.#kernel = new Kernel(ports)
    this.#link = new AgentLink(this.#kernel)
    this.#link.onTurnsChanged = () => this.#wakeTurnWaiters()
    this.#calls = new CallRunner(
      this.#kernel,
      (sandbox) => this.#sandboxSession(sandbox),
      (kind, id, body) => this.#link.command(kind, id, body),
    )
    this.#lifecycle = new Lifecycle(this.#kernel, this.#link)
    this.#outbox = new OutboxSender(this.#kernel)
  }

  // Doors for callers

  async create(create: CreateSession): Promise<Session> {
    if (this.#kernel.created) return this.view(create)
    const { ports } = this.#kernel
    const provider = create.input.sandbox ?? ports.config.defaultSandbox
    if (provider !== 'none' && !ports.provider(provider)) {
      throw new AppError('unprocessable', `No sandbox provider "${provider}" is configured`, [
        { path: 'sandbox', message: 'Not configured in this deployment' },
      ])
    }
    const token = create.input.repository?.token
    const repositoryToken = token ? await ports.crypto.seal(token) : null
    // Between the check and here the same request may have arrived twice.
    if (this.#kernel.created) return this.view(create)
    const markerNonce = ports.crypto.random(20)
    this.#kernel.commit((sql, now) => {
      this.#kernel.createTables()
      insertSession(sql, now, create, { provider, repositoryToken, markerNonce })
      if (provider !== 'none') setDeadline(sql, 'sandbox.create', now)
    })
    await this.#kernel.crash('session.created')
    return this.view(create)
  }

  async view(caller: Pick<Caller, 'organisationId'>): Promise<Session> {
    this.#callerSession(caller)
    return this.#view()
  }

  async close(caller: Caller, reason: string): Promise<Session> {
    this.#callerSession(caller)
    this.#lifecycle.close(reason)
    return this.#view()
  }

  async erase(caller: Caller): Promise<void> {
    this.#callerSession(caller)
    this.#lifecycle.close('deleted')
    this.#kernel.commit((sql, now) => {
      sql.run(`update session set status = 'erased'`)
      addToOutbox(sql, now, 'session.erased', {})
      setDeadline(sql, 'erase', now)
    })
  }

  async replaceSandbox(caller: Caller, reason: string): Promise<Session> {
    const session = this.#callerSession(caller)
    if (session.status !== 'open') throw new AppError('wrong_state', 'Cannot replace the sandbox: session is closed')
    if (session.provider === 'none') {
      // No machine to stop or start: only the generation moves on, and with it every token.
      this.#kernel.commit((sql) => sql.run('update session set generation = generation + 1'))
      this.#kernel.ports.host.closeAgent(linkClose.fenced, 'This sandbox has been replaced')
      return this.#view()
    }
    this.#lifecycle.replace(reason)
    return this.#view()
  }

  async prompt(caller: Caller, input: PromptCreate, idempotencyKey: string | null): Promise<Turn> {
    const { crypto } = this.#kernel.ports
    const session = this.#callerSession(caller)
    const body = JSON.stringify([input.text, input.steer])
    const turnId = this.#kernel.commit((sql, now) => {
      const known = idempotencyKey === null ? null : findPromptKey(sql, idempotencyKey, body)
      if (known) return known
      mustTakePrompts(session)
      const suffix = crypto.random(14)
      const id =
        (input.steer && steerTurn(sql, now, { generation: session.generation, messageSuffix: suffix, input })) ||
        this.#queueTurn(session, input, suffix)
      if (idempotencyKey !== null) savePromptKey(sql, now, idempotencyKey, body, id)
      return id
    })
    await this.#kernel.crash('prompt.stored')
    return loadTurn(this.#kernel.ports.sql, session.id, turnId)
  }

  #queueTurn(session: SessionRecord, input: PromptCreate, messageSuffix: string): string {
    const { sql, now, crypto } = this.#kernel.ports
    const id = `trn_${session.id.slice(4)}${crypto.random(8)}`
    addTurn(sql, now(), { id, messageSuffix, prompt: input.text })
    if (session.sandboxState === 'ready') startNextTurn(sql, now(), session.generation)
    return id
  }

  async turn(caller: Caller, turnId: string): Promise<Turn> {
    const session = this.#callerSession(caller)
    return loadTurn(this.#kernel.ports.sql, session.id, turnId)
  }

  async waitForTurn(caller: Caller, turnId: string, waitMs: number): Promise<Turn> {
    let timedOut = false
    const timeout = this.#kernel.ports.host.sleep(waitMs).then(() => {
      timedOut = true
    })
    for (;;) {
      const turn = await this.turn(caller, turnId)
      if (timedOut || turnEnds.some((end) => end === turn.state)) return turn
      let wake = () => {}
      const changed = new Promise<void>((resolve) => (wake = resolve))
      this.#turnWaiters.add(wake)
      await Promise.race([changed, timeout])
      this.#turnWaiters.delete(wake)
    }
  }

  async turns(caller: Caller, page: Page): Promise<{ items: Turn[]; next: number | null }> {
    const session = this.#callerSession(caller)
    return listTurns(this.#kernel.ports.sql, session.id, page)
  }

  async abort(caller: Caller): Promise<Session> {
    const session = this.#callerSession(caller)
    this.#kernel.commit((sql, now) => {
      this.#kernel.answer(denyOpenAsks(sql, now, 'The turn was aborted', 'abort'))
      requestAbort(sql, now, session.generation)
    })
    this.#wakeTurnWaiters()
    return this.#view()
  }

  async events(caller: Caller, after: number, limit: number): Promise<SessionEvent[]> {
    this.#callerSession(caller)
    return listEvents(this.#kernel.ports.sql, after, limit)
  }

  async calls(caller: Caller, page: Page): Promise<{ items: ToolCall[]; next: number | null }> {
    this.#callerSession(caller)
    return listCalls(this.#kernel.ports.sql, page)
  }

  async asks(caller: Caller): Promise<Ask[]> {
    const session = this.#callerSession(caller)
    return listAsks(this.#kernel.ports.sql, session.id)
  }

  async answerAsk(caller: Caller, askId: string, answer: AskAnswer): Promise<Ask> {
    const session = this.#callerSession(caller)
    this.#kernel.commit((sql, now) =>
      this.#kernel.answer([answerByPerson(sql, now, askId, caller.keyId, answer)]),
    )
    return viewAsk(this.#kernel.ports.sql, session.id, askId)
  }

  /** From the sandbox if it can be asked now, else as it was at the end of the last turn. */
  async diff(caller: Caller): Promise<SessionDiff> {
    const session = this.#callerSession(caller)
    const { host, crypto, sql } = this.#kernel.ports
    if (session.sandboxState !== 'ready' || !host.agentConnected()) return loadDiff(sql)
    const commandId = `diff_${crypto.random(20)}`
    const asked = this.#link.command('diff', commandId, {}).catch(() => null)
    const report = await Promise.race([asked, host.sleep(liveDiffMs).then(() => null)])
    this.#kernel.commit((sql, now) => {
      forgetCommand(sql, commandId)
      if (report) saveDiff(sql, now, report)
    })
    if (!report) return loadDiff(sql)
    return { ...loadDiff(sql), live: true }
  }

  async artifacts(caller: Caller): Promise<Artifact[]> {
    this.#callerSession(caller)
    return listArtifacts(this.#kernel.ports.sql)
  }

  async artifact(caller: Caller, artifactId: string): Promise<Artifact> {
    this.#callerSession(caller)
    return loadArtifact(this.#kernel.ports.sql, artifactId)
  }

  // Doors for the sandbox

  async authoriseSandbox(sandbox: SandboxCaller): Promise<void> {
    mustBeOpen(this.#sandboxSession(sandbox))
  }

  async manifest(sandbox: SandboxCaller): Promise<Manifest> {
    const session = this.#sandboxSession(sandbox)
    mustBeOpen(session)
    const { crypto, config, tools } = this.#kernel.ports
    const provider = this.#kernel.ports.provider(session.provider)
    if (!provider) throw new AppError('wrong_state', 'This session has no sandbox')
    return buildManifest(
      {
        sessionId: session.id,
        layout: provider.layout(session.id, session.generation),
        model: session.model ?? config.defaultModel,
        trustProjectConfig: session.trustProjectConfig,
        nonce: session.markerNonce,
        tools: tools.map((tool) => tool.definition),
      },
      crypto,
    )
  }

  callTool(sandbox: SandboxCaller, call: ToolCallInput): Promise<CallAnswer> {
    return this.#calls.call(sandbox, call)
  }

  // The host's doors: sockets and the alarm

  /** Throws unless this sandbox may hold the link. */
  checkLink(sandbox: SandboxCaller): void {
    mustBeOpen(this.#sandboxSession(sandbox))
  }

  checkWatcher(caller: Pick<Caller, 'organisationId'>): void {
    this.#callerSession(caller)
  }

  /** Hands over everything after `after`; what comes later is published. */
  startWatch(after: number, send: (events: SessionEvent[]) => void): void {
    for (let from = after; ; ) {
      const events = listEvents(this.#kernel.ports.sql, from, 200)
      const last = events.at(-1)
      if (!last) break
      send(events)
      from = last.seq
    }
    this.#kernel.watchStarted()
  }

  /** An expired token of the current generation buys a new one and nothing else. */
  async newToken(): Promise<string> {
    return JSON.stringify(await this.#link.newToken())
  }

  receive(generation: number, text: string): Promise<LinkEnd | null> {
    return this.#link.receive(generation, text)
  }

  linkClosed(generation: number): void {
    this.#link.closed(generation)
  }

  /** The process that held the sockets is gone, so nobody has told of a link that ended with it. */
  linkMayBeLost(): void {
    if (!this.#kernel.created) return
    const { generation, sandboxState } = this.#kernel.session()
    if (sandboxState === 'ready') this.#link.closed(generation)
  }

  /** Never throws: the platform gives up on an alarm that fails a few times. */
  async runDue(): Promise<void> {
    if (!this.#kernel.created) return
    this.#kernel.alarmFired()
    const { sql, now } = this.#kernel.ports
    const due = takeDue(sql, now(), leaseMs)
    // Arms the next one before anything is done about these.
    this.#kernel.commit(() => {})
    await Promise.all(due.map((deadline) => this.#runDeadline(deadline)))
  }

  async #runDeadline(deadline: Deadline): Promise<void> {
    try {
      await this.#kernel.crash('deadline.taken')
      await this.#deadline(deadline)
    } catch (error) {
      this.#kernel.ports.log('warn', 'Deadline failed, will come again', {
        name: deadline.name,
        attempt: deadline.attempt,
        error: error instanceof Error ? error.message : String(error),
      })
    }
  }

  #deadline(deadline: Deadline): void | Promise<void> {
    const [name, argument] = deadline.name.split(':')
    switch (name) {
      case 'outbox':
        return this.#outbox.onDeadline()
      case 'outbox.verify':
        return this.#outbox.onVerify()
      case 'ask':
        return this.#kernel.commit((sql, now) => this.#kernel.answer(denyOverdue(sql, now)))
      case 'turn.abort':
        return this.#abortOverdue()
      case 'sandbox.create':
        return this.#lifecycle.onCreate(deadline.attempt)
      case 'sandbox.boot':
        return this.#lifecycle.onBoot()
      case 'sandbox.check':
        return this.#lifecycle.onCheck()
      case 'sandbox.stop':
        return this.#lifecycle.onStop(Number(argument))
      case 'purge':
        return this.erase({ organisationId: this.#kernel.session().organisationId, keyId: 'retention' })
      case 'erase':
        return this.#finishErase()
    }
  }

  #abortOverdue(): void {
    this.#kernel.commit((sql, now) => {
      const running = runningTurn(sql)
      if (!running?.abort_requested) return
      endTurnHere(sql, now, { turnId: running.id, state: 'aborted', reason: 'The sandbox did not confirm the abort' })
      const session = this.#kernel.session()
      if (session.sandboxState === 'ready') startNextTurn(sql, now, session.generation)
    })
    this.#wakeTurnWaiters()
  }

  /** First the machine and the shared rows, then the record itself: a crash between them starts here again. */
  async #finishErase(): Promise<void> {
    const session = this.#kernel.session()
    if (session.sandboxState !== 'none') await this.#lifecycle.onStop(session.generation)
    await this.#outbox.drain()
    await this.#kernel.crash('erase.drained')
    this.#kernel.forget()
    await this.#kernel.ports.host.erase()
  }

  // Who may come in

  #callerSession(caller: Pick<Caller, 'organisationId'>): SessionRecord {
    const session = this.#kernel.session()
    if (session.organisationId !== caller.organisationId || session.status === 'erased') {
      throw new AppError('not_found', 'No such session')
    }
    return session
  }

  #sandboxSession(sandbox: SandboxCaller): SessionRecord {
    const session = this.#callerSession(sandbox)
    if (session.generation !== sandbox.generation) {
      throw new AppError('old_generation', 'This sandbox has been replaced')
    }
    return session
  }

  #view(): Session {
    const { sql, now, host } = this.#kernel.ports
    return viewSession(sql, now(), host.agentConnected())
  }

  #wakeTurnWaiters(): void {
    for (const wake of this.#turnWaiters) wake()
  }
}

function mustBeOpen(session: SessionRecord): void {
  if (session.status !== 'open') throw new AppError('session_closed', 'The session is closed')
}

function mustTakePrompts(session: SessionRecord): void {
  if (session.status !== 'open') throw new AppError('wrong_state', 'Cannot prompt: session is closed')
  if (session.provider === 'none') throw new AppError('wrong_state', 'Cannot prompt: session has no sandbox')
  if (session.sandboxState === 'failed' || session.sandboxState === 'lost') {
    throw new AppError(
      'wrong_state',
      `Cannot prompt: sandbox is ${session.sandboxState} (${session.sandboxReason ?? 'no reason given'}). Replace it with POST /v1/sessions/${session.id}/replace`,
    )
  }
}
