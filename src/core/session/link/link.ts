import { ownedId } from '../../../contract/ids.ts'
import {
  type AgentEvent,
  type CommandBody,
  type CommandResult,
  commandKinds,
  type DownMessage,
  linkClose,
  linkProtocols,
  maxLinkMessageBytes,
  type UpMessage,
} from '../../../contract/link.ts'
import type { EventData } from '../../../contract/events.ts'
import { maxReportedMs } from '../../../contract/reported.ts'
import type { ModelPrice } from '../../../contract/model-table.ts'
import { isByteLengthOver } from '../../../contract/byte-length.ts'
import type { ExecutionReport } from '../../../contract/operation.ts'
import { maxQueuedTurns } from '../../../contract/turn.ts'
import type { Sql } from '../../ports.ts'
import type { Operations } from '../operations/operations.ts'
import { operationReport } from '../operations/reports.ts'
import { runOfTurnPrompt } from '../turns/run-turns.ts'
import { endWorktreeStep, worktreeStepResult } from '../operations/worktrees.ts'
import { denyOpenQuestions } from '../gate/questions.ts'
import { Deltas } from '../log/deltas.ts'
import type { Commands } from '../commands/commands.ts'
import { finishCommand, loadCommand } from '../commands/rows.ts'
import { ackedEventSeq, appendEvent, newAgentEvents, storeAgentEvent } from '../log/events.ts'
import type { Evidence } from '../evidence/evidence.ts'
import type { Gate } from '../gate/gate.ts'
import { followAgentEvent, followGateBypassEvent } from './agent-events.ts'
import { noteTold } from '../generations/generations.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { parseMessage } from './message.ts'
import { loseBrokenSandbox } from '../steps/lose-sandbox.ts'
import { isLive, loadSession } from '../record/record.ts'
import { pulseLost } from '../generations/pulse.ts'
import { agentHello, agentNowReady } from '../steps/agent-ready.ts'
import { parsePlausible } from '../log/plausible.ts'
import { isOver } from '../record/record.ts'
import { changeSandboxState } from '../generations/sandbox-states.ts'
import { watchTurnSilence, endTurnSilence } from '../turns/silence.ts'
import {
  addTurn,
  countQueuedTurns,
  endTurnHere,
  noteTurnDelivered,
  runningTurn,
  startNextTurn,
  turnIdOf,
} from '../turns/rows.ts'

type Next = CommandResult<'evidence'>
type Step = EventData<'step.finished'>
type Sent = CommandResult<'prompt'>

/** Why the socket must be closed. */
export interface LinkEnd {
  code: number
  reason: string
}

/** Whom it tells of what the agent says. */
interface LinkedRooms {
  commands: Commands
  gate: Gate
  operations: Operations
  evidence: Evidence
}

type Bypass = EventData<'gate.bypassed'>
type Message<T extends UpMessage['t']> = Extract<UpMessage, { t: T }>

/**
 * The socket to the agent: events and questions come up, commands and answers go down. Each message is checked against
 * the session's generation in the commit that stores it; an event is stored once, however often it is sent. It may import
 * many rooms, because what an agent says concerns many.
 */
export class Link {
  readonly #kernel: SessionKernel
  readonly #deltas: Deltas
  readonly #commands: Commands
  readonly #gate: Gate
  readonly #operations: Operations
  readonly #evidence: Evidence

  constructor(kernel: SessionKernel, { commands, gate, operations, evidence }: LinkedRooms) {
    this.#kernel = kernel
    this.#commands = commands
    this.#gate = gate
    this.#operations = operations
    this.#evidence = evidence
    this.#deltas = new Deltas(() => kernel.hideStream())
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
    if (isByteLengthOver(text, maxLinkMessageBytes))
      return { code: linkClose.refused, reason: 'Message too large' }
    const message = parseMessage(text, this.#kernel)
    if (!message) return { code: linkClose.refused, reason: 'Not a message of this protocol' }
    if (message.t === 'hello') return this.#hello(generation, message)
    await this.#handle(generation, message)
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
      case 'alive':
        return this.#alive(message.turnId)
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
      ackedSeq: ackedEventSeq(this.#kernel.ports.sql, generation),
    })
    this.#commands.linkOpened()
    this.#kernel.commit((sql, now) => {
      appendEvent(sql, now, 'link.connected', { generation, agent: hello.agent })
      agentHello(sql, now, generation, hello.ready)
    })
    await this.#kernel.crash('link.greeted')
    return null
  }

  #ready(generation: number, ready: Message<'ready'>): void {
    this.#kernel.commit((sql, now) => {
      this.#gate.saveEnforcement(sql, ready.enforces ?? [])
      this.#gate.saveEnclosure(sql, generation, ready.enclosure)
      if (changeSandboxState(sql, now, 'ready', null)) agentNowReady(sql, now, generation)
    })
    const { id } = this.#kernel.session()
    this.#kernel.ports.log('info', 'Sandbox ready', {
      sessionId: id,
      generation,
      bootMs: Math.min(Math.max(0, ready.bootMs), maxReportedMs),
    })
  }

  #alive(turnId: string): void {
    this.#kernel.commit((sql, now) => {
      if (runningTurn(sql)?.id === turnId) watchTurnSilence(sql, now)
    })
  }

  #failed(reason: string): void {
    this.#kernel.commit((sql, now) => this.#kernel.answer(loseBrokenSandbox(sql, now, reason)))
    this.#kernel.ports.host.closeAgent(linkClose.fenced, 'This sandbox has been given up')
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
          this.#kernel.answer(followGateBypassEvent(sql, now, generation, event.data as Bypass))
        else if (followAgentEvent(sql, now, event, price)) {
          this.#turnEnded(sql, now, generation)
          this.#evidence.turnEnded(sql, now, String(event.data['turnId']))
        } else if (event.kind === 'step.finished')
          this.#evidence.stepFinished(sql, now, (event.data as Step).turnId)
      }
    })
    await this.#kernel.crash('link.after-store')
    if (!this.#speaks(generation)) return
    this.#kernel.send({ t: 'ack', seq: ackedEventSeq(this.#kernel.ports.sql, generation) })
  }

  #price(): ModelPrice | null {
    const { model } = this.#kernel.session()
    return this.#kernel.ports.config.models.find(({ id }) => id === model)?.price ?? null
  }

  #turnEnded(sql: Sql, now: number, generation: number): void {
    this.#deltas.clear()
    this.#kernel.answer(denyOpenQuestions(sql, now, 'The turn has ended', 'turn-end'))
    if (loadSession(sql).sandboxState === 'ready') startNextTurn(sql, now, generation)
  }

  async #result(generation: number, result: Message<'result'>): Promise<void> {
    this.#kernel.commit((sql, now) => {
      if (!this.#speaks(generation)) return
      const command = loadCommand(sql, result.commandId)
      if (!command) return
      const parsed = parsePlausible<object>(commandKinds[command.kind].result, result.data ?? {})
      const ok = result.ok && parsed.ok
      const error =
        result.error ?? (parsed.ok ? 'The command failed' : 'The result has the wrong shape')
      if (!finishCommand(sql, result.commandId, ok, ok ? parsed.data : error)) return
      if (parsed.implausible) {
        const message = `A result reports what cannot be true: ${parsed.implausible}`
        appendEvent(sql, now, 'agent.notice', { message })
      }
      if (command.kind === 'execute')
        this.#endAttempt(sql, now, command.id, operationReport(ok, parsed.data, error))
      if (command.kind === 'evidence')
        this.#evidence.collected(sql, now, command.id, ok ? (parsed.data as Next) : { error })
      if (command.kind === 'merge' || command.kind === 'discard')
        endWorktreeStep(sql, now, command.id, worktreeStepResult(ok, parsed.data, error))
      if (command.kind === 'prompt' && ok) {
        noteTold(sql, generation, now)
        noteTurnDelivered(sql, command.id, (parsed.data as Sent).opencodeSessionId)
        if (runningTurn(sql)?.id === command.id) endTurnSilence(sql, now, parsed.data)
      }
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
  }

  #endAttempt(sql: Sql, now: number, attemptId: string, report: ExecutionReport): void {
    this.#operations.finalise(sql, now, attemptId, report)
    this.#evidence.attemptEnded(sql, now, attemptId)
  }

  /** It came after the turn's last step: what the person said becomes a turn of its own. */
  #queueSteer(sql: Sql, now: number, prompt: string): void {
    const { id, generation, sandboxState } = loadSession(sql)
    if (countQueuedTurns(sql) >= maxQueuedTurns) return
    const { crypto } = this.#kernel.ports
    addTurn(sql, now, {
      id: turnIdOf(id, crypto.random(8)),
      runId: runOfTurnPrompt(sql, now, {
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
    const token = await this.newToken(generation)
    // By now the link may be its successor's.
    if (this.#speaks(generation)) this.#kernel.send(token)
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
    this.#kernel.commit(pulseLost)
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
