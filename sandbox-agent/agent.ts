// The agent of one sandbox: it connects the rooms. Upwards there is the link to the session, downwards the relay and
// OpenCode, and between them what must survive a restart. `run` brings the sandbox up and reports it as ready or
// failed; `stop` leaves nothing behind: questions are denied, the turn is aborted, OpenCode and every marked process
// are ended. main.ts starts it.

import { randomBytes } from 'node:crypto'
import { chmodSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { PinnedFolder } from '../src/contract/ability-folder.ts'
import type { CommandBody, CommandResult } from '../src/contract/link.ts'
import { type Boot, Manifest, SandboxEnv } from '../src/contract/manifest.ts'
import { turnPatience } from '../src/contract/turn.ts'
import { AbilityTeller } from './abilities/teller.ts'
import { PinnedFolders } from './abilities/pinned-folders.ts'
import { AgentNames } from './opencode/agent-names.ts'
import { Changes } from './evidence/changes.ts'
import { bundleText } from './evidence/bundle-text.ts'
import { formattedBy } from './evidence/formatted.ts'
import { uploadFolder } from './evidence/upload-folder.ts'
import { collectEvidence } from './evidence/collect-evidence.ts'
import { Commands } from './commands.ts'
import { ControlPlane } from './link/control-plane.ts'
import { crashPoint } from './crash-points.ts'
import { abilitiesFolder } from './workspace/workspace.ts'
import { applyEnvFiles } from './workspace/env-files.ts'
import { egressQuestions } from './gate/egress-questions.ts'
import { Egress } from './enclosure/egress.ts'
import { Reader } from './enclosure/reader.ts'
import { Executor } from './execute/executor.ts'
import { Gate } from './gate/gate.ts'
import { becomeLean } from './lean.ts'
import { hideFromLogs, log, messageOf } from './log.ts'
import { Memory, Results } from './memory/memory.ts'
import { killMarked, type Marked } from './marked-processes.ts'
import { realPathsOf } from './gate/real-paths.ts'
import { Relay } from './gate/relay.ts'
import { shorten } from './shorten.ts'
import { Spool, type ToldParts } from './memory/spool.ts'
import { Supervisor } from './opencode/supervisor.ts'
import { Token } from './link/token.ts'
import { uploadText, uploadFile } from './link/upload.ts'
import { Upstreams } from './gate/upstreams.ts'
import { StreamLog } from './workspace/stream-log.ts'
import { Permissions } from './turn/permissions.ts'
import { Turns } from './turn/turns.ts'
import { maxPayloadBytes, Uplink } from './link/uplink.ts'

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
  readonly #egress: Egress
  readonly #upstreams: Upstreams
  /** Runs git and the like over the sandbox's files. */
  readonly #reader: Reader
  readonly #changes: Changes
  readonly #permissions: Permissions
  readonly #streamLog = new StreamLog()
  readonly #turns: Turns
  readonly #executor: Executor
  readonly #commands: Commands
  readonly #uplink: Uplink
  readonly #abilities: AbilityTeller
  #relayUrl = ''
  #envApplied: Promise<void> = Promise.resolve()
  #stopping = false
  #becameReady = () => {}
  readonly #isReady = new Promise<void>((resolve) => (this.#becameReady = resolve))

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
      currentTurn: () => this.#turns.current,
      onFenced: (reason) => void this.stop(reason),
      isFenced: () => this.#plane.isFenced(),
    })
    const decide = egressQuestions(this.#gate)
    this.#upstreams = new Upstreams({
      gatewayUrl: boot.gatewayUrl,
      token: () => this.#token.value,
      decide,
    })
    this.#egress = new Egress({
      decide,
      privateHosts: () => this.#supervisor.privateHosts,
    })
    this.#reader = new Reader(() => this.#supervisor.hold())
    this.#supervisor = new Supervisor({
      boot,
      memory: this.#memory,
      emit: this.#uplink.emit,
      marked: this.#marked,
      environment: () => this.#environment(),
      marks: this.#marks(),
      run: this.#reader.run,
      serve: {
        relay: (server) => this.#relay.serve(server),
        proxy: (server) => this.#egress.serve(server),
        socks: (server) => this.#egress.serveSocks(server),
        upstreams: (servers) => this.#upstreams.serve(this.#supervisor.upstreams, servers),
      },
      onEvent: (event) => {
        this.#names.hear(event)
        this.#permissions.hear(event)
        this.#turns.hear(event)
      },
      onDied: () => this.#turns.opencodeDied(),
      onFailed: (reason) => this.#fail(reason),
    })
    this.#changes = new Changes(this.#memory, this.#supervisor, this.#reader.run, this.#marks())
    this.#permissions = new Permissions(this.#gate, () => this.#supervisor.opencode())
    this.#turns = new Turns({
      emit: this.#streamLog.tee(this.#changes.emitTo(this.#uplink.emit)),
      beginAttempt: ({ logFile }) => this.#beginAttempt(logFile),
      gate: this.#gate,
      memory: this.#memory,
      opencode: () => this.#supervisor.opencode(),
      beforePrompt: () => this.#beforePrompt(),
      diff: () => this.#changes.atTurnEnd(),
      killOpenCode: () => this.#supervisor.kill(),
      modelBytes: () => this.#relay.modelBytes,
      patience: { ...turnPatience, ...boot.patience },
      afterTurn: (forget) =>
        this.#uplink.afterEmitted(() => {
          forget()
          this.#spool.compactIfRoom()
        }),
      title: `Gantry ${boot.sessionId}`,
      agentOf: (sessionId) => {
        const { agent, subagent = agent } = this.#names.of(sessionId)
        return subagent === undefined ? {} : { agent: subagent }
      },
    })
    this.#abilities = new AbilityTeller({
      workspace: () => this.#supervisor.layout.workspace,
      to: (hash) => this.#plane.abilities(hash),
    })
    this.#executor = this.#createExecutor()
    this.#commands = this.#createCommands()
  }

  async run(): Promise<void> {
    setInterval(() => this.#turns.tick(), 50)
    setInterval(() => this.#gate.tick(), 1000)
    setInterval(() => this.#uplink.alive(), turnPatience.aliveEveryMs)
    this.#relayUrl = await this.#relay.listen()
    // After OpenCode's process is started, if the manifest is here; otherwise at once, because fetching it may need a
    // new
    // token from the link.
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
        // The base first: files that it has seen stay in the sandbox's own store and get into snapshots, and env values
        // must not.
        meanwhile(() => this.#changes.rememberBase(manifest)).then(() => this.#applyEnv()),
      ])
      await this.#turns.endForgotten(this.#toldBefore)
      await crashPoint('ready.before')
      const bootMs = Date.now() - this.#startedAt
      const { enclosure } = this.#supervisor
      log('ready', { bootMs, enforces, enclosure })
      this.#uplink.ready(bootMs, enforces, enclosure)
      this.#becameReady()
      void this.#abilities.tell()
    } catch (error) {
      this.#fail(messageOf(error))
    }
  }

  async stop(reason: string): Promise<void> {
    if (this.#stopping) return
    this.#stopping = true
    this.#plane.stop()
    log('stopping', { reason })
    await this.#turns.abortAndWait(reason, 5000)
    await this.#supervisor.stop(2000)
    this.#reader.close()
    const killed = await killMarked(this.#marked)
    await this.#uplink.stop(1000)
    this.#relay.close()
    this.#egress.close()
    this.#upstreams.close()
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
      probeSite: own,
      site: async () => {
        await this.#supervisor.opencode()
        return { ...own, ...this.#supervisor.layout, run: this.#reader.run }
      },
      abilityFolder: new PinnedFolders({
        root: () => join(this.#supervisor.layout.configDir, abilitiesFolder),
        fetch: (hash) => this.#plane.fetch(`abilities/${hash}`, PinnedFolder),
      }).ensure,
      upload: (...file) => uploadFile(this.#plane.upload, ...file),
      maxReportBytes: maxPayloadBytes,
    })
  }

  #createCommands(): Commands {
    return new Commands(
      {
        prompt: async (body) => {
          const sent = this.#turns.prompt(body)
          this.#uplink.alive()
          const answer = { ...(await sent), beats: this.#uplink.beats }
          const { opencodeSessionId } = this.#memory.value
          return opencodeSessionId === null ? answer : { ...answer, opencodeSessionId }
        },
        abort: async ({ turnId, reason }) => {
          await this.#turns.abort(turnId, reason)
          return {}
        },
        collect: async (body) => ({
          files: await uploadFolder(this.#supervisor.layout.workspace, body, this.#plane.upload),
        }),
        evidence: (body) => this.#collectEvidence(body),
        diff: async () => {
          const diff = (await this.#changes.diff()) ?? { patch: '', files: [], truncated: false }
          const { value, shortened } = shorten(diff, maxPayloadBytes)
          return shortened ? { ...value, truncated: true } : diff
        },
        env: async () => {
          await this.#applyEnv()
          return {}
        },
        ability: async ({ path, hash }) => {
          await this.#abilities.send(path, hash)
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

  /** A collect that was posted and not recorded is made again: what it finds goes under the same id. */
  async #collectEvidence(body: CommandBody<'evidence'>): Promise<CommandResult<'evidence'>> {
    const { home, workspace } = this.#supervisor.layout
    const environment = {
      PATH: process.env['PATH'] ?? '/usr/bin:/bin',
      HOME: home,
      ...this.#marks(),
    }
    const formatted = async () => formattedBy(await this.#supervisor.opencode())
    const site = { run: this.#reader.run, environment, home, workspace, formatted }
    const { bundle, next } = await collectEvidence(site, body)
    const text = bundleText(bundle)
    await crashPoint('evidence.collected')
    await uploadText(this.#plane.evidence(body.collectId), text)
    return { bytes: Buffer.byteLength(text), next }
  }

  /** Its log is no work of the agent's: it is in no diff. What else lies beside it is. */
  #beginAttempt(logFile: string | null): void {
    if (logFile === null) return
    const { workspace } = this.#supervisor.layout
    const opened = this.#streamLog.open(logFile, { workspace, owner: this.#supervisor.owner })
    if ('problem' in opened) return this.#uplink.emit('agent.notice', { message: opened.problem })
    const path = `${workspace}/${opened.file}`
    const { copies } = this.#memory.value
    if (!copies.includes(path)) this.#memory.save({ copies: [...copies, path] })
  }

  async #beforePrompt(): Promise<void> {
    await this.#isReady
    await this.#supervisor.verify()
    void this.#abilities.tell()
  }

  /** The values are never in a command or an event: they are fetched when they are written. */
  #applyEnv(): Promise<void> {
    // One after the other: an older answer must not be written last.
    const applied = this.#envApplied.then(() => this.#fetchEnv())
    this.#envApplied = applied.catch(() => undefined)
    return applied
  }

  async #fetchEnv(): Promise<void> {
    const env = await this.#plane.fetch('env', SandboxEnv)
    const written = applyEnvFiles(env, this.#supervisor.layout, this.#supervisor.owner)
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
}

/**
 * Runs the work once OpenCode's process is started: OpenCode boots for seconds, and the work delays nobody meanwhile.
 */
async function meanwhile<T>(work: () => Promise<T>): Promise<T> {
  await new Promise((resolve) => setImmediate(resolve))
  return work()
}
