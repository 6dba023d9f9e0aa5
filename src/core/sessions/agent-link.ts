import {
  type AgentEvent,
  type CommandBody,
  commandKinds,
  type DownMessage,
  linkClose,
  linkProtocols,
  maxLinkMessageBytes,
  UpMessage,
} from '../../contract/link.ts'
import type { EventData } from '../../contract/events.ts'
import type { ModelPrice } from '../../contract/model-table.ts'
import { isLongerThan } from '../../contract/canonical.ts'
import { maxQueuedTurns } from '../../contract/turn.ts'
import type { Sql } from '../ports.ts'
import type { OperationDesk } from '../runs/operation-desk.ts'
import { reportOf } from '../runs/reports.ts'
import { ownedId } from '../runs/run.ts'
import { runOfPrompt } from '../runs/run-turns.ts'
import { denyOpenAsks } from './asks.ts'
import { Deltas } from './deltas.ts'
import type { CommandDesk } from './command-desk.ts'
import { finishCommand, loadCommand } from './commands.ts'
import { ackedAgentSeq, appendEvent, newAgentEvents, storeAgentEvent } from './events.ts'
import type { GateDesk } from './gate-desk.ts'
import { followEvent, gateBypassed } from './follow.ts'
import { noteTold } from './generations.ts'
import type { Kernel } from './kernel.ts'
import { breakSandbox } from './loss.ts'
import { isLive, loadSession } from './record.ts'
import { agentCalled, linkLost, nowReady } from './readiness.ts'
import { changeSandbox, isOver } from './sandbox.ts'
import { addTurn, countQueued, endTurnHere, runningTurn, startNextTurn, turnIdOf } from './turns.ts'

/** Why the socket must be closed. */
export interface LinkEnd {
  code: number
  reason: string
}

type Bypass = EventData<'gate.bypassed'>
type Message<T extends UpMessage['t']> = Extract<UpMessage, { t: T }>

/** The socket to the agent: events and questions come up, commands and answers go down. */
export class AgentLink {
  readonly #kernel: Kernel
  readonly #deltas: Deltas
  readonly #commands: CommandDesk
  readonly #gate: GateDesk
  readonly #operations: OperationDesk
  /** Called when turns may have ended: somebody may be waiting for one. */
  onTurnsChanged: () => void = () => {}

  constructor(kernel: Kernel, commands: CommandDesk, gate: GateDesk, operations: OperationDesk) {
    this.#kernel = kernel
    this.#commands = commands
    this.#gate = gate
    this.#operations = operations
    this.#deltas = new Deltas(() => kernel.redactStream())
  }

  /** `generation` is that of the token with which the socket was opened. */
  async receive(generation: number, text: string): Promise<LinkEnd | null> {
    await this.#kernel.openSecrets()
    // After the await: the sandbox may have been replaced meanwhile.
    if (!this.#kernel.created) return { code: linkClose.fenced, reason: 'No such session' }
    if (!this.#speaks(generation)) {
      return {
        code: linkClose.fenced,
        reason: 'This sandbox has been replaced or its session closed',
      }
    }
    if (isLongerThan(text, maxLinkMessageBytes))
      return { code: linkClose.refused, reason: 'Message too large' }
    const message = parseMessage(text, (value) => this.#kernel.redact(value))
    if (!message) return { code: linkClose.refused, reason: 'Not a message of this protocol' }
    if (message.t === 'hello') return this.#hello(generation, message)
    await this.#handle(generation, message)
    this.onTurnsChanged()
    return null
  }

  /** Whether this sandbox is the session's. Asked again in each commit, since much can happen while others are awaited. */
  #speaks(generation: number): boolean {
    const session = this.#kernel.session()
    if (!isLive(session) || isOver(session.sandboxState)) return false
    return session.generation === generation
  }

  #handle(generation: number, message: Exclude<UpMessage, { t: 'hello' }>): void | Promise<void> {
    switch (message.t) {
      case 'ready':
        return this.#ready(generation, message)
      case 'failed':
        return this.#failed(message.reason)
      case 'events':
        return this.#events(generation, message)
      case 'result':
        return this.#result(generation, message)
      case 'ask':
        return this.#gate.receive(generation, message)
      case 'renew':
        return this.#renew(generation)
    }
  }

  async #hello(generation: number, hello: Message<'hello'>): Promise<LinkEnd | null> {
    const protocol = linkProtocols.find((version) => hello.protocols.includes(version))
    if (protocol === undefined) {
      return {
        code: linkClose.tooOld,
        reason: `No common protocol: this release speaks ${linkProtocols.join(', ')}`,
      }
    }
    this.#kernel.ports.host.agentGreeted()
    this.#kernel.send({
      t: 'welcome',
      protocol,
      ackedSeq: ackedAgentSeq(this.#kernel.ports.sql, generation),
    })
    this.#kernel.forgetSentCommands()
    this.#kernel.commit((sql, now) => {
      appendEvent(sql, now, 'link.connected', { generation, agent: hello.agent })
      agentCalled(sql, now, generation, hello.ready)
    })
    await this.#kernel.crash('link.greeted')
    return null
  }

  #ready(generation: number, ready: Message<'ready'>): void {
    this.#kernel.commit((sql, now) => {
      this.#gate.saveEnforcement(sql, ready.enforces ?? [])
      if (changeSandbox(sql, now, 'ready', null)) nowReady(sql, now, generation)
    })
    const { id } = this.#kernel.session()
    this.#kernel.ports.log('info', 'Sandbox ready', {
      sessionId: id,
      generation,
      bootMs: ready.bootMs,
    })
  }

  #failed(reason: string): void {
    this.#kernel.commit((sql, now) => this.#kernel.answer(breakSandbox(sql, now, reason)))
    this.#kernel.ports.host.closeAgent(linkClose.fenced, 'This sandbox has been given up')
    this.#commands.wakeAll()
    this.onTurnsChanged()
  }

  async #events(generation: number, { items }: Message<'events'>): Promise<void> {
    await this.#kernel.crash('link.before-store')
    this.#kernel.commit((sql, now) => {
      if (!this.#speaks(generation)) return
      const price = this.#price()
      for (const item of newAgentEvents(sql, generation, items)) {
        const shown = withoutLateEnd(sql, this.#deltas.redact(item))
        const event = storeAgentEvent(sql, now, generation, shown)
        if (event.kind === 'gate.bypassed')
          this.#kernel.answer(gateBypassed(sql, now, generation, event.data as Bypass))
        else if (followEvent(sql, now, event, price)) this.#turnEnded(sql, now, generation)
      }
    })
    await this.#kernel.crash('link.after-store')
    this.#kernel.send({ t: 'ack', seq: ackedAgentSeq(this.#kernel.ports.sql, generation) })
  }

  #price(): ModelPrice | null {
    const { model } = this.#kernel.session()
    return this.#kernel.ports.config.models.find(({ id }) => id === model)?.price ?? null
  }

  #turnEnded(sql: Sql, now: number, generation: number): void {
    this.#deltas.clear()
    this.#kernel.answer(denyOpenAsks(sql, now, 'The turn has ended', 'turn-end'))
    if (loadSession(sql).sandboxState === 'ready') startNextTurn(sql, now, generation)
  }

  async #result(generation: number, result: Message<'result'>): Promise<void> {
    this.#kernel.commit((sql, now) => {
      if (!this.#speaks(generation)) return
      const command = loadCommand(sql, result.commandId)
      if (!command) return
      const parsed = commandKinds[command.kind].result.safeParse(result.data ?? {})
      const ok = result.ok && parsed.success
      const error =
        result.error ?? (parsed.success ? 'The command failed' : 'The result has the wrong shape')
      if (!finishCommand(sql, result.commandId, ok, ok ? parsed.data : error)) return
      if (command.kind === 'execute')
        this.#operations.finalise(sql, now, command.id, reportOf(ok, parsed.data, error))
      if (command.kind === 'prompt' && ok) noteTold(sql, generation, now)
      // A prompt that could not be handed to OpenCode has no agent event to end its turn.
      if (command.kind === 'prompt' && !ok) {
        const { turnId, steer, text } = JSON.parse(command.body) as CommandBody<'prompt'>
        if (steer) return this.#queueSteer(sql, now, text)
        endTurnHere(sql, now, { turnId, state: 'failed', reason: error })
        this.#turnEnded(sql, now, generation)
      }
    })
    await this.#kernel.crash('command.finished')
    this.#kernel.send({ t: 'resultAck', commandId: result.commandId })
    this.#commands.wake(result.commandId)
    this.#operations.wake()
  }

  /** It came after the turn's last step: what the person said becomes a turn of its own. */
  #queueSteer(sql: Sql, now: number, prompt: string): void {
    const { id, generation, sandboxState } = loadSession(sql)
    if (countQueued(sql) >= maxQueuedTurns) return
    const { crypto } = this.#kernel.ports
    addTurn(sql, now, {
      id: turnIdOf(id, crypto.random(8)),
      runId: runOfPrompt(sql, now, {
        runId: null,
        freshRunId: ownedId('run', id, crypto.random(8)),
        text: prompt,
      }),
      messageSuffix: crypto.random(14),
      prompt,
    })
    if (sandboxState === 'ready') startNextTurn(sql, now, generation)
  }

  async #renew(generation: number): Promise<void> {
    this.#kernel.send(await this.newToken(generation))
  }

  /** Of the asker's own generation: if it was replaced meanwhile, it must not get its successor's. */
  async newToken(generation: number): Promise<Extract<DownMessage, { t: 'token' }>> {
    const { id: sessionId, organisationId } = this.#kernel.session()
    const { tokens } = this.#kernel.ports
    return { t: 'token', ...(await tokens.mint({ sessionId, organisationId, generation })) }
  }

  closed(generation: number): void {
    if (!this.#kernel.created || this.#kernel.ports.host.agentConnected()) return
    if (!this.#speaks(generation)) return
    this.#kernel.commit(linkLost)
  }
}

/** A turn ends once, also in the log: what the agent reports after an end that was decided here is only noted. */
function withoutLateEnd(sql: Sql, item: AgentEvent): AgentEvent {
  if (item.kind !== 'turn.ended') return item
  const turnId = String(item.data['turnId'])
  if (runningTurn(sql)?.id === turnId) return item
  return {
    ...item,
    kind: 'agent.notice',
    data: { message: `Turn "${turnId}" ended again: ${String(item.data['state'])}` },
  }
}

/** Deltas are left to `Deltas`, which sees across their borders. A number of the protocol is no secret's digits. */
function redactMessage(message: UpMessage, redact: <T>(value: T) => T): UpMessage {
  if (message.t !== 'events') return redact(message)
  const items = message.items.map((item) =>
    item.kind === 'message.delta' ? item : { ...item, data: redact(item.data) },
  )
  return { ...message, items }
}

/** What the sandbox sends is stored and shown only without the secrets it may hold. */
function parseMessage(text: string, redact: <T>(value: T) => T): UpMessage | null {
  try {
    const parsed = UpMessage.safeParse(JSON.parse(text))
    return parsed.success ? redactMessage(parsed.data, redact) : null
  } catch {
    return null
  }
}
