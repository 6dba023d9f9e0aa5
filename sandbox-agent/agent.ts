import { randomBytes } from 'node:crypto'
import { chmodSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { type Boot, Manifest, SandboxEnv } from '../src/contract/manifest.ts'
import type { DiffReport } from '../src/contract/diff.ts'
import { AgentNames } from './agent-names.ts'
import { collect, uploadFile } from './collect.ts'
import { Commands } from './commands.ts'
import { ControlPlane } from './control-plane.ts'
import { crashPoint } from './crash-points.ts'
import { applyEnv } from './env-files.ts'
import { type DiffOptions, readBaseTree, takeDiff } from './diff.ts'
import { Executor } from './execute/executor.ts'
import { Gate } from './gate.ts'
import { becomeLean } from './lean.ts'
import { hideFromLogs, log, messageOf } from './log.ts'
import { Memory, Results } from './memory.ts'
import { killMarked, type Marked } from './processes.ts'
import { realPathsOf } from './real-paths.ts'
import { Relay } from './relay.ts'
import { shorten } from './shorten.ts'
import { Spool, type ToldParts } from './spool.ts'
import { Supervisor } from './supervisor.ts'
import { Token } from './token.ts'
import { Turns } from './turns.ts'
import { maxPayloadBytes, Uplink } from './uplink.ts'

const eventDiffBytes = 200 * 1024

/** Everything of one sandbox: the link up, the relay and OpenCode down, and what must survive in between. */
export class Agent {
  readonly #boot: Boot
  readonly #startedAt = Date.now()
  readonly #exit: (code: number) => void
  readonly #marked: Marked
  readonly #token: Token
  readonly #plane: ControlPlane
  readonly #localToken = randomBytes(24).toString('base64url')
  readonly #spool: Spool
  readonly #results: Results
  readonly #memory: Memory
  /** Of the turn that an earlier process had begun. */
  readonly #toldBefore: ToldParts
  readonly #gate: Gate
  readonly #names = new AgentNames()
  readonly #relay: Relay
  readonly #supervisor: Supervisor
  readonly #turns: Turns
  readonly #executor: Executor
  readonly #commands: Commands
  readonly #uplink: Uplink
  #relayUrl = ''
  #envApplied: Promise<void> = Promise.resolve()
  #stopping = false

  constructor(boot: Boot, exit: (code: number) => void) {
    this.#boot = boot
    this.#exit = exit
    this.#token = new Token(boot.token)
    this.#plane = new ControlPlane(boot, this.#token)
    hideFromLogs(this.#localToken)
    mkdirSync(boot.stateDir, { recursive: true, mode: 0o700 })
    chmodSync(boot.stateDir, 0o700)
    this.#marked = { mark: `GANTRY_SANDBOX=${this.#marks()['GANTRY_SANDBOX']}`, uid: boot.uid }
    this.#spool = new Spool(join(boot.stateDir, 'events.jsonl'))
    this.#results = new Results(join(boot.stateDir, 'results.jsonl'))
    this.#memory = new Memory(join(boot.stateDir, 'memory.json'))
    this.#toldBefore = this.#spool.partsOf(this.#memory.value.turn?.turnId ?? '')
    this.#gate = new Gate(
      (ask) => void crashPoint('ask.received').then(() => this.#uplink.sendAsk(ask)),
    )
    this.#relay = new Relay({
      gatewayUrl: boot.gatewayUrl,
      sessionId: boot.sessionId,
      token: () => this.#token.value,
      localToken: this.#localToken,
      gate: this.#gate,
    })
    this.#uplink = new Uplink({
      url: this.#plane.url('link').replace(/^http/, 'ws'),
      boot: randomBytes(10).toString('hex'),
      token: this.#token,
      spool: this.#spool,
      results: this.#results,
      gate: this.#gate,
      onCommand: ({ id, kind, body }) => this.#commands.receive(id, kind, body),
      factsOf: (ask) => ({
        ...this.#names.of(ask.sessionID),
        ...realPathsOf(ask.input, this.#supervisor.layout.workspace, [
          this.#supervisor.layout.home,
          this.#supervisor.layout.envFile,
        ]),
      }),
      onFenced: (reason) => void this.stop(reason),
      isFenced: () => this.#plane.isFenced(),
    })
    this.#supervisor = new Supervisor({
      boot,
      memory: this.#memory,
      emit: this.#uplink.emit,
      marked: this.#marked,
      environment: () => this.#environment(),
      onEvent: (event) => {
        this.#names.hear(event)
        this.#turns.hear(event)
      },
      onDied: () => this.#turns.opencodeDied(),
      onFailed: (reason) => this.#fail(reason),
    })
    this.#turns = new Turns({
      emit: this.#uplink.emit,
      gate: this.#gate,
      memory: this.#memory,
      opencode: () => this.#supervisor.opencode(),
      beforePrompt: () => this.#beforePrompt(),
      diff: () => this.#diff(eventDiffBytes),
      killOpenCode: () => this.#supervisor.kill(),
      afterTurn: (forget) =>
        this.#uplink.afterEmitted(() => {
          forget()
          this.#spool.compact()
        }),
      title: `Gantry ${boot.sessionId}`,
    })
    this.#executor = this.#createExecutor()
    this.#commands = this.#createCommands()
  }

  async run(): Promise<void> {
    setInterval(() => this.#turns.tick(), 50)
    setInterval(() => this.#gate.tick(), 1000)
    this.#relayUrl = await this.#relay.listen()
    // Not before OpenCode's process, unless the manifest is still to be fetched: that may need a new token from the link.
    setImmediate(() => {
      becomeLean()
      this.#uplink.start()
    })
    try {
      const [manifest] = await Promise.all([
        this.#boot.manifest ?? this.#plane.fetch('manifest', Manifest),
        this.#supervisor.endLeftovers(),
      ])
      await crashPoint('manifest.fetched')
      const [, enforces] = await Promise.all([
        this.#supervisor.start(manifest),
        meanwhile(() => this.#executor.enforces()),
        // In this order: what the base tree has seen stays in the sandbox's own store, and goes into snapshots.
        meanwhile(() => this.#rememberBase(manifest)).then(() => this.#applyEnv()),
      ])
      await this.#turns.endForgotten(this.#toldBefore)
      await crashPoint('ready.before')
      const bootMs = Date.now() - this.#startedAt
      log('ready', { bootMs, enforces })
      this.#uplink.ready(bootMs, enforces)
    } catch (error) {
      this.#fail(messageOf(error))
    }
  }

  /** Nothing is left behind: questions denied, turn aborted, OpenCode ended, every marked process killed. */
  async stop(reason: string): Promise<void> {
    if (this.#stopping) return
    this.#stopping = true
    this.#plane.stop()
    log('stopping', { reason })
    await this.#turns.abortAndWait(reason, 5000)
    await this.#supervisor.stop(2000)
    const killed = await killMarked(this.#marked)
    await this.#uplink.stop(1000)
    this.#relay.close()
    this.#spool.close()
    this.#results.close()
    log('stopped', { killed })
    this.#exit(0)
  }

  #fail(reason: string): void {
    if (this.#stopping) return
    log('failed', { reason })
    this.#uplink.failed(reason)
  }

  #createExecutor(): Executor {
    const { stateDir, path } = this.#boot
    const own = {
      owner: this.#supervisor.owner,
      path: [...path, process.env['PATH'] ?? '/usr/local/bin:/usr/bin:/bin'].join(':'),
      marks: this.#marks(),
    }
    return new Executor({
      folder: join(stateDir, 'attempts'),
      probePlace: own,
      place: async () => {
        await this.#supervisor.opencode()
        return { ...own, ...this.#supervisor.layout }
      },
      upload: (...file) => uploadFile(this.#plane.upload, ...file),
      maxReportBytes: maxPayloadBytes,
    })
  }

  #createCommands(): Commands {
    return new Commands(
      {
        prompt: (body) => this.#turns.prompt(body),
        abort: async ({ turnId }) => {
          await this.#turns.abort(turnId)
          return {}
        },
        collect: async (body) => ({
          files: await collect(this.#supervisor.layout.workspace, body, this.#plane.upload),
        }),
        diff: async () => {
          const diff = (await this.#diff(undefined)) ?? { patch: '', files: [], truncated: false }
          const { value, shortened } = shorten(diff, maxPayloadBytes)
          return shortened ? { ...value, truncated: true } : diff
        },
        env: async () => {
          await this.#applyEnv()
          return {}
        },
        execute: (body) => this.#executor.execute(body),
        cancel: (body) => this.#executor.cancel(body),
        merge: (body) => this.#executor.merge(body),
        discard: (body) => this.#executor.discard(body),
        stop: async ({ reason }) => {
          setTimeout(() => void this.stop(reason), 200) // the result goes out first
          return {}
        },
      },
      this.#results,
      (id, result) => this.#uplink.sendResult(id, result),
    )
  }

  async #beforePrompt(): Promise<void> {
    if (!this.#uplink.isReady) throw new Error('The sandbox is not ready')
    await this.#supervisor.verify()
  }

  /** The values are never in a command or an event: they are fetched when they are written. */
  #applyEnv(): Promise<void> {
    // One after the other: an answer that is older must not be written last.
    const applied = this.#envApplied.then(() => this.#fetchEnv())
    this.#envApplied = applied.catch(() => undefined)
    return applied
  }

  async #fetchEnv(): Promise<void> {
    const env = await this.#plane.fetch('env', SandboxEnv)
    const written = applyEnv(env, this.#supervisor.layout, this.#supervisor.owner)
    const copies = [...new Set([...this.#memory.value.copies, ...written])]
    this.#memory.save({ copies })
    log('env applied', { keys: Object.keys(env.values).length, files: written.length })
  }

  #environment(): Record<string, string> {
    return {
      PROLIFERATE_GATEWAY_URL: this.#relayUrl,
      SANDBOX_MCP_AUTH_TOKEN: this.#localToken,
      ...this.#marks(),
    }
  }

  #marks(): Record<'GANTRY_MARK' | 'GANTRY_SANDBOX', string> {
    const { mark, sessionId, generation } = this.#boot
    return { GANTRY_MARK: mark, GANTRY_SANDBOX: `${sessionId}.${generation}` }
  }

  #diffOptions({ home, workspace }: Manifest['layout']): DiffOptions {
    return {
      workspace,
      gitDir: `${home}/.gantry-diff.git`,
      owner: this.#supervisor.owner,
      environment: { PATH: process.env['PATH'] ?? '/usr/bin:/bin', HOME: home, ...this.#marks() },
      excluded: this.#memory.value.copies.map((path) => path.slice(workspace.length + 1)),
    }
  }

  async #rememberBase({ layout }: Manifest): Promise<void> {
    if (this.#memory.value.baseTree !== null) return
    this.#memory.save({ baseTree: await readBaseTree(this.#diffOptions(layout)) })
  }

  async #diff(maxBytes: number | undefined): Promise<DiffReport | null> {
    const { baseTree } = this.#memory.value
    return baseTree === null
      ? null
      : takeDiff(this.#diffOptions(this.#supervisor.layout), baseTree, maxBytes)
  }
}

/** Once OpenCode's process is there: it boots for seconds, and what is done in that time costs none. */
async function meanwhile<T>(work: () => Promise<T>): Promise<T> {
  await new Promise((resolve) => setImmediate(resolve))
  return work()
}
