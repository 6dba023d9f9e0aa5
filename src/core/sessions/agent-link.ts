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
import { isLongerThan } from '../../contract/canonical.ts'
import type { EventData } from '../../contract/events.ts'
import { maxQueuedTurns } from '../../contract/turn.ts'
import { requestEnvVariablesTool } from '../../contract/tools/request-env-variables.ts'
import { clearDeadline, ensureDeadline, setDeadline } from '../deadlines.ts'
import type { Sql } from '../ports.ts'
import { denyOpenAsks, receiveAsk } from './asks.ts'
import { saveDiff } from './artifacts.ts'
import { Deltas } from './deltas.ts'
import { receiveEnvRequest } from './env.ts'
import type { CommandDesk } from './command-desk.ts'
import { finishCommand, loadCommand } from './commands.ts'
import { ackedAgentSeq, appendEvent, newAgentEvents, storeAgentEvent } from './events.ts'
import type { Kernel } from './kernel.ts'
import { loseSandbox } from './loss.ts'
import { loadSession } from './record.ts'
import { bootMs, changeSandbox } from './sandbox.ts'
import {
  addTokens,
  addTurn,
  countQueued,
  endTurn,
  endTurnHere,
  runningTurn,
  startNextTurn,
  turnIdOf,
} from './turns.ts'

const checkAfterMs = 10_000

/** Why the socket must be closed. */
export interface LinkEnd {
  code: number
  reason: string
}

type Message<T extends UpMessage['t']> = Extract<UpMessage, { t: T }>

/** The socket to the agent: events and questions come up, commands and answers go down. */
export class AgentLink {
  readonly #kernel: Kernel
  readonly #deltas: Deltas
  readonly #commands: CommandDesk
  /** Called when turns may have ended: somebody may be waiting for one. */
  onTurnsChanged: () => void = () => {}

  constructor(kernel: Kernel, commands: CommandDesk) {
    this.#kernel = kernel
    this.#commands = commands
    this.#deltas = new Deltas(() => kernel.redactStream())
  }

  /** `generation` is that of the token with which the socket was opened. */
  async receive(generation: number, text: string): Promise<LinkEnd | null> {
    await this.#kernel.openSecrets()
    // After the await: the sandbox may have been replaced meanwhile.
    if (!this.#kernel.created) return { code: linkClose.fenced, reason: 'No such session' }
    const session = this.#kernel.session()
    if (generation !== session.generation || session.status !== 'open') {
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
        return this.#ask(generation, message)
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
      clearDeadline(sql, 'sandbox.create')
      clearDeadline(sql, 'sandbox.check')
      const booting = changeSandbox(sql, now, hello.ready ? 'ready' : 'hello', null)
      // A sandbox that was given up may still call: it gets nothing to do.
      if (hello.ready && loadSession(sql).sandboxState === 'ready')
        this.#nowReady(sql, now, generation)
      // The answer to its creation may have been lost, and with it the deadline that was to follow.
      if (!hello.ready && booting) ensureDeadline(sql, 'sandbox.boot', now + bootMs)
    })
    await this.#kernel.crash('link.greeted')
    return null
  }

  #ready(generation: number, ready: Message<'ready'>): void {
    this.#kernel.commit((sql, now) => {
      if (changeSandbox(sql, now, 'ready', null)) this.#nowReady(sql, now, generation)
    })
    const { id } = this.#kernel.session()
    this.#kernel.ports.log('info', 'Sandbox ready', {
      sessionId: id,
      generation,
      bootMs: ready.bootMs,
    })
  }

  #nowReady(sql: Sql, now: number, generation: number): void {
    clearDeadline(sql, 'sandbox.boot')
    startNextTurn(sql, now, generation)
  }

  #failed(reason: string): void {
    this.#kernel.commit((sql, now) => this.#kernel.answer(loseSandbox(sql, now, 'failed', reason)))
    this.#commands.wakeAll()
    this.onTurnsChanged()
  }

  async #events(generation: number, { items }: Message<'events'>): Promise<void> {
    await this.#kernel.crash('link.before-store')
    this.#kernel.commit((sql, now) => {
      for (const item of newAgentEvents(sql, generation, items)) {
        this.#follow(
          sql,
          now,
          generation,
          storeAgentEvent(sql, now, generation, withoutLateEnd(sql, this.#deltas.redact(item))),
        )
      }
    })
    await this.#kernel.crash('link.after-store')
    this.#kernel.send({ t: 'ack', seq: ackedAgentSeq(this.#kernel.ports.sql, generation) })
  }

  /** What an event changes beyond the log. */
  #follow(sql: Sql, now: number, generation: number, event: AgentEvent): void {
    if (event.kind === 'tool.started') {
      const { tool, messageId, callId, input } = event.data as EventData<'tool.started'>
      if (tool === requestEnvVariablesTool.fileName)
        receiveEnvRequest(sql, now, `${messageId}/${callId}`, input)
    }
    if (event.kind === 'step.finished') {
      const step = event.data as EventData<'step.finished'>
      if (step.turnId) addTokens(sql, step.turnId, step.tokens.input, step.tokens.output)
    }
    if (event.kind !== 'turn.ended') return
    const end = event.data as EventData<'turn.ended'>
    if (end.diff) saveDiff(sql, now, end.diff)
    if (endTurn(sql, now, end)) this.#turnEnded(sql, now, generation)
  }

  #turnEnded(sql: Sql, now: number, generation: number): void {
    this.#deltas.clear()
    this.#kernel.answer(denyOpenAsks(sql, now, 'The turn has ended', 'turn-end'))
    if (loadSession(sql).sandboxState === 'ready') startNextTurn(sql, now, generation)
  }

  async #result(generation: number, result: Message<'result'>): Promise<void> {
    this.#kernel.commit((sql, now) => {
      const command = loadCommand(sql, result.commandId)
      if (!command) return
      const parsed = commandKinds[command.kind].result.safeParse(result.data ?? {})
      const ok = result.ok && parsed.success
      const error =
        result.error ?? (parsed.success ? 'The command failed' : 'The result has the wrong shape')
      if (!finishCommand(sql, result.commandId, ok, ok ? parsed.data : error)) return
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
  }

  /** It came after the turn's last step: what the person said becomes a turn of its own. */
  #queueSteer(sql: Sql, now: number, prompt: string): void {
    const { id, generation, sandboxState } = loadSession(sql)
    if (countQueued(sql) >= maxQueuedTurns) return
    const { crypto } = this.#kernel.ports
    addTurn(sql, now, {
      id: turnIdOf(id, crypto.random(8)),
      messageSuffix: crypto.random(14),
      prompt,
    })
    if (sandboxState === 'ready') startNextTurn(sql, now, generation)
  }

  async #ask(generation: number, question: Message<'ask'>): Promise<void> {
    const { gate: rules } = this.#kernel.session()
    this.#kernel.commit((sql, now) => {
      const running = runningTurn(sql)
      const turn = running ? { id: running.id, aborting: running.abort_requested === 1 } : null
      const answer = receiveAsk(sql, now, question, { generation, rules, turn })
      if (answer) this.#kernel.answer([answer])
    })
    await this.#kernel.crash('ask.stored')
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
    const session = this.#kernel.session()
    if (generation !== session.generation || session.status !== 'open') return
    this.#kernel.commit((sql, now) => {
      appendEvent(sql, now, 'link.disconnected', { generation })
      changeSandbox(sql, now, 'link-lost', 'The link to the sandbox is down')
      // A missing socket is not a dead machine: the provider is asked before anything is given up.
      if (session.sandboxState === 'ready' || session.sandboxState === 'suspect') {
        setDeadline(sql, 'sandbox.check', now + checkAfterMs)
      } else if (session.sandboxState === 'booting') {
        ensureDeadline(sql, 'sandbox.boot', now + checkAfterMs)
      }
    })
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
