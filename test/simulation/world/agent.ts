import { turnPatience } from '../../../src/contract/turn.ts'
import { Commands, type Executors } from '../../../sandbox-agent/commands.ts'
import { Gate, type Question } from '../../../sandbox-agent/gate/gate.ts'
import { callUpstream } from '../../../sandbox-agent/gate/upstream.ts'
import { Token } from '../../../sandbox-agent/link/token.ts'
import { uploadFile, uploadText } from '../../../sandbox-agent/link/upload.ts'
import { Uplink } from '../../../sandbox-agent/link/uplink.ts'
import { Memory, Results } from '../../../sandbox-agent/memory/memory.ts'
import { type Emit, Spool } from '../../../sandbox-agent/memory/spool.ts'
import type { OpenCode } from '../../../sandbox-agent/opencode/opencode.ts'
import type { Part } from '../../../sandbox-agent/opencode/transcript.ts'
import { Turns } from '../../../sandbox-agent/turn/turns.ts'
import type { CommandBody } from '../../../src/contract/link.ts'
import { Enforcement } from '../../../src/contract/operation.ts'
import type { SandboxSpec } from '../../../src/core/ports.ts'
import type { Clock } from '../platform/clock.ts'
import type { SimulatedDisk } from '../platform/disk.ts'
import type { Network } from '../platform/network.ts'
import { SimulatedAttempts } from './attempts.ts'
import { bundleOf } from './evidence.ts'
import { simulatedSession, SimulatedOpenCode, type Stored } from './opencode.ts'
import { Process } from '../platform/process.ts'

/** What a sandbox is, whoever runs in it. */
export interface Machine {
  spec: SandboxSpec
  disk: SimulatedDisk
  stored: Stored
}

/** What is noted of an agent, for the invariants. */
export interface AgentNotes {
  /** `messageId` is of the answer in which a tool is used. */
  asked(askId: string, messageId: string): void
  told(seq: number): void
  prompted(messageId: string, turnId: string): void
  overlap(running: string, coming: string): void
  ran(tool: string): void
  /** An attempt of an operation has had its effect. */
  attempted(attemptId: string): void
  askId(): string
  /** The content that the workspace has to show, by its number. */
  evidence(): string
}

const restartMs = 1000
const pollMs = 5000
/** Rarely: nothing depends on it, and it would be most of what happens. */
const tickMs = 10_000

/**
 * One agent process: the real link, gate, turns, commands and memory, put together as sandbox-agent/agent.ts does it. Only
 * what needs a machine is the world's: the disk, the sockets and OpenCode.
 */
export class SimulatedAgent {
  readonly process: Process
  readonly #clock: Clock
  readonly #network: Network
  readonly #machine: Machine
  readonly #notes: AgentNotes
  readonly #gate: Gate
  readonly #turns: Turns
  readonly #uplink: Uplink
  readonly #spool: Spool
  readonly #token: Token
  readonly #onEnd: () => void
  readonly #attempts: SimulatedAttempts
  #opencode: SimulatedOpenCode | null = null
  #up = Promise.withResolvers<SimulatedOpenCode>()
  #starts = 0
  #stopping = false

  constructor(
    { clock, network, notes }: { clock: Clock; network: Network; notes: AgentNotes },
    machine: Machine,
    onEnd: () => void,
  ) {
    const { sessionId, generation, token, gatewayUrl } = machine.spec
    this.process = new Process(`agent ${sessionId.slice(-4)}.${generation}`)
    this.#clock = clock
    this.#network = network
    this.#machine = machine
    this.#notes = notes
    this.#onEnd = onEnd
    const disk = machine.disk.for(this.process)
    this.#spool = new Spool('events', disk)
    const results = new Results('results', disk)
    const memory = new Memory('memory', disk)
    this.#attempts = new SimulatedAttempts(disk, (id) => notes.attempted(id))
    const told = this.#spool.partsOf(memory.value.turn?.turnId ?? '')
    this.#token = new Token(token)
    this.#gate = new Gate((ask) => this.#uplink.sendAsk(ask))
    this.#uplink = new Uplink({
      url: `${gatewayUrl}/sandbox/${sessionId}/link`,
      boot: notes.askId(),
      token: this.#token,
      spool: this.#spool,
      results,
      gate: this.#gate,
      onCommand: ({ id, kind, body }) => commands.receive(id, kind, body),
      factsOf: () => ({ realPaths: [], shortened: false }),
      currentTurn: () => this.#turns.current,
      onFenced: (reason) => void this.stop(reason),
      isFenced: () => this.#isFenced(),
    })
    this.#turns = new Turns({
      emit: this.#emit,
      gate: this.#gate,
      memory,
      opencode: () => this.#up.promise as unknown as Promise<OpenCode>,
      beforePrompt: () =>
        network.call(
          'verify manifest',
          () => this.process,
          () => undefined,
        ),
      diff: async () => null,
      killOpenCode: async () => this.killOpenCode(),
      modelBytes: () => 0,
      patience: turnPatience,
      afterTurn: (forget) =>
        this.#uplink.afterEmitted(() => {
          forget()
          this.#spool.compactIfRoom()
        }),
      title: 'Simulated',
    })
    const commands = new Commands(
      this.#executors() as unknown as Executors,
      results,
      (id, result) => this.#uplink.sendResult(id, result),
    )
    this.process.onDeath(() => this.#opencode?.process.die())
    this.process.run(() => void this.#run(told))
  }

  /** Numbered when it is on the disk: what is told must arrive, and nothing else. */
  readonly #emit: Emit = (kind, data) => {
    this.#uplink.emit(kind, data)
    this.#uplink.afterEmitted(() => this.#notes.told(this.#spool.lastSeq))
  }

  async #run(told: Parameters<Turns['endForgotten']>[0]): Promise<void> {
    setInterval(() => {
      this.#turns.tick()
      this.#gate.tick()
    }, tickMs)
    setInterval(() => this.#uplink.alive(), turnPatience.aliveEveryMs)
    this.#uplink.start()
    this.#startOpenCode()
    await this.#up.promise
    await this.#turns.endForgotten(told)
    const enclosure = { level: 'none', how: 'simulated', why: 'simulated' } as const
    this.#uplink.ready(1, [...Enforcement.options], enclosure)
  }

  #startOpenCode(): void {
    setTimeout(() => {
      if (this.#stopping) return
      const { stored } = this.#machine
      const opencode: SimulatedOpenCode = new SimulatedOpenCode(
        `opencode of ${this.process.name}`,
        this.#clock,
        this.#network,
        stored,
        {
          use: (tool, part) => this.process.run(() => this.#use(tool, part)),
          onEvent: (event) => {
            if (this.process.isAlive && this.#opencode === opencode)
              this.process.run(() => this.#turns.hear(event))
          },
          onOverlap: (running, coming) => this.#notes.overlap(running, coming),
        },
      )
      opencode.process.onDeath(() => this.#clock.forget(opencode.process))
      this.#opencode = opencode
      this.#starts += 1
      this.#emit('opencode.started', { version: '1', startMs: 1, restart: this.#starts > 1 })
      this.#up.resolve(opencode)
    }, restartMs)
  }

  killOpenCode(): void {
    const opencode = this.#opencode
    if (!opencode || !this.process.isAlive) return
    this.#opencode = null
    opencode.process.die()
    this.process.run(() => {
      this.#up = Promise.withResolvers()
      this.#emit('opencode.died', { code: null, signal: 'SIGKILL' })
      this.#startOpenCode()
      this.#turns.opencodeDied()
    })
  }

  /** As the plugin and the relay do it: ask until there is an answer, confirm, then run. */
  async #use(tool: string, part: Part): Promise<{ output: string } | { error: string }> {
    const question: Question = {
      askId: this.#notes.askId(),
      tool,
      callId: part.callID ?? '',
      sessionID: part.sessionID,
      input: part.state?.input ?? null,
    }
    this.#notes.asked(question.askId, part.messageID)
    for (;;) {
      const answer = await this.#gate.ask(question, pollMs)
      if (!answer) continue
      const final = answer.decision === 'allow' ? this.#gate.confirm(question) : answer
      if (final.decision !== 'allow') return { error: `Gantry refused: ${final.reason}` }
      return this.#runTool(tool, question)
    }
  }

  async #runTool(
    tool: string,
    { callId, askId }: Question,
  ): Promise<{ output: string } | { error: string }> {
    if (tool === 'bash') {
      this.#notes.ran(tool)
      return { output: 'done' }
    }
    if (!this.#gate.admits(tool, callId)) return { error: 'Gantry refused: not asked' }
    const { gatewayUrl, sessionId } = this.#machine.spec
    const { result } = await callUpstream({
      url: `${gatewayUrl}/proliferate/${sessionId}/tools/${tool}`,
      token: () => this.#token.value,
      body: JSON.stringify({ tool_call_id: askId, args: {} }),
    })
    return { output: result.result }
  }

  #executors() {
    const { gatewayUrl, sessionId } = this.#machine.spec
    const upload = {
      url: `${gatewayUrl}/sandbox/${sessionId}/artifacts`,
      token: () => this.#token.value,
    }
    return {
      prompt: async (body: Parameters<Turns['prompt']>[0]) => {
        this.#notes.prompted(body.messageId, body.turnId)
        const sent = this.#turns.prompt(body)
        this.#uplink.alive()
        const opencodeSessionId = simulatedSession
        return { ...(await sent), beats: this.#uplink.beats, opencodeSessionId }
      },
      abort: async ({ turnId, reason }: { turnId: string | null; reason?: string }) => {
        await this.#turns.abort(turnId, reason)
        return {}
      },
      collect: async () => ({
        files: [await uploadFile(upload, 'shot.txt', Buffer.from(this.#notes.evidence()))],
      }),
      execute: (body: CommandBody<'execute'>) => this.#attempts.execute(body),
      cancel: async (body: CommandBody<'cancel'>) => this.#attempts.cancel(body),
      evidence: async (body: CommandBody<'evidence'>) => {
        const { bundle, next } = bundleOf(this.#machine.stored, body)
        const text = JSON.stringify(bundle)
        const url = `${gatewayUrl}/sandbox/${sessionId}/evidence/${body.collectId}`
        await uploadText({ url, token: () => this.#token.value }, text)
        return { bytes: text.length, next }
      },
      diff: async () => ({ patch: '', files: [], truncated: false }),
      env: async () => ({}),
      stop: async ({ reason }: { reason: string }) => {
        setTimeout(() => void this.stop(reason), 200)
        return {}
      },
    }
  }

  async #isFenced(): Promise<boolean> {
    const { gatewayUrl, sessionId } = this.#machine.spec
    const headers = { authorization: `Bearer ${this.#token.value}` }
    try {
      const { status } = await fetch(`${gatewayUrl}/sandbox/${sessionId}/manifest`, { headers })
      return status === 403 || status === 404
    } catch {
      return false
    }
  }

  async stop(reason: string): Promise<void> {
    if (this.#stopping) return
    this.#stopping = true
    await this.#turns.abortAndWait(reason, 5000)
    this.#opencode?.process.die()
    await this.#uplink.stop(1000)
    this.process.die()
    this.#onEnd()
  }
}
