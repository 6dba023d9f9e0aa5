import { randomBytes } from 'node:crypto'
import { chmodSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { AgentEventKind, EventData } from '../src/contract/events.ts'
import { AskId } from '../src/contract/ids.ts'
import { type DownMessage, maxLinkMessageBytes, type UpMessage } from '../src/contract/link.ts'
import { type Boot, Manifest } from '../src/contract/manifest.ts'
import { collect } from './collect.ts'
import { Commands } from './commands.ts'
import { crashPoint } from './crash-points.ts'
import { type DiffOptions, readBaseTree, takeDiff } from './diff.ts'
import { type Ask, Gate } from './gate.ts'
import { Link } from './link.ts'
import { hideFromLogs, log, messageOf, sleep } from './log.ts'
import { Memory, type Result, Results } from './memory.ts'
import { OpenCode } from './opencode.ts'
import { findMarked, killMarked, type Marked } from './processes.ts'
import { Relay } from './relay.ts'
import { shorten } from './shorten.ts'
import { Spool, type ToldParts } from './spool.ts'
import { Token } from './token.ts'
import { Turns } from './turns.ts'
import { applyManifest } from './workspace.ts'

const maxBatchItems = 200
/** The rest of a message of the link's largest size is left for its frame. */
const maxBatchBytes = maxLinkMessageBytes - 64 * 1024
/** As much may be on its way unacknowledged; the rest waits on disk. */
const maxInFlight = 2000
const maxRestarts = 5
const restartWindowMs = 5 * 60_000
const eventDiffBytes = 200 * 1024

/** Everything of one sandbox: the link up, the relay and OpenCode down, and what must survive in between. */
export class Agent {
  readonly #boot: Boot
  readonly #startedAt = Date.now()
  readonly #token: Token
  readonly #spool: Spool
  readonly #results: Results
  readonly #memory: Memory
  readonly #gate: Gate
  readonly #relay: Relay
  readonly #link: Link
  readonly #turns: Turns
  readonly #commands: Commands
  readonly #marked: Marked
  /** Of the turn that an earlier process had begun. */
  readonly #toldBefore: ToldParts
  readonly #localToken = randomBytes(24).toString('base64url')
  readonly #exit: (code: number) => void
  #relayUrl = ''
  #manifest: Manifest | undefined
  #applied = false
  #opencode: Promise<OpenCode>
  #setOpencode!: (opencode: OpenCode) => void
  #current: OpenCode | undefined
  #ready = false
  #failed: string | null = null
  #stopping = false
  #deaths: number[] = []
  #sentSeq = 0
  #ackedSeq = 0
  #pumpScheduled = false
  #writing: Promise<void> = Promise.resolve()

  constructor(boot: Boot, exit: (code: number) => void) {
    this.#boot = boot
    this.#exit = exit
    this.#token = new Token(boot.token)
    hideFromLogs(this.#localToken)
    mkdirSync(boot.stateDir, { recursive: true, mode: 0o700 })
    chmodSync(boot.stateDir, 0o700)
    this.#marked = { mark: `GANTRY_SANDBOX=${boot.sessionId}.${boot.generation}`, uid: boot.uid }
    this.#spool = new Spool(join(boot.stateDir, 'events.jsonl'))
    this.#results = new Results(join(boot.stateDir, 'results.jsonl'))
    this.#memory = new Memory(join(boot.stateDir, 'memory.json'))
    this.#toldBefore = this.#spool.partsOf(this.#memory.value.turn?.turnId ?? '')
    this.#opencode = this.#nextOpencode()
    this.#gate = new Gate((ask) => void crashPoint('ask.received').then(() => this.#sendAsk(ask)))
    const token = () => this.#token.value
    const { gatewayUrl, sessionId } = boot
    this.#relay = new Relay({
      gatewayUrl,
      sessionId,
      token,
      localToken: this.#localToken,
      gate: this.#gate,
    })
    this.#turns = new Turns({
      emit: this.#emit,
      gate: this.#gate,
      memory: this.#memory,
      opencode: () => this.#opencode,
      beforePrompt: () => this.#verifyManifest(),
      diff: () => this.#diff(eventDiffBytes),
      killOpenCode: () => this.#current?.kill(),
      afterTurn: () => this.#emitDone(() => this.#spool.compact()),
      title: `Gantry ${sessionId}`,
    })
    this.#commands = new Commands(
      {
        prompt: (body) => this.#turns.prompt(body),
        abort: async ({ turnId }) => {
          await this.#turns.abort(turnId)
          return {}
        },
        collect: async (body) => ({
          files: await collect(this.#layout().workspace, body, {
            url: this.#url('artifacts'),
            token,
          }),
        }),
        diff: async () => {
          const diff = (await this.#diff(undefined)) ?? { patch: '', files: [], truncated: false }
          const { value, shortened } = shorten(diff, maxBatchBytes)
          return shortened ? { ...value, truncated: true } : diff
        },
        stop: async ({ reason }) => {
          setTimeout(() => void this.stop(reason), 200) // the result goes out first
          return {}
        },
      },
      this.#results,
      (id, result) => this.#sendResult(id, result),
    )
    this.#link = new Link({
      url: this.#url('link').replace(/^http/, 'ws'),
      boot: randomBytes(10).toString('hex'),
      token,
      isReady: () => this.#ready,
      onWelcome: (ackedSeq) => this.#welcome(ackedSeq),
      onMessage: (message) => void this.#receive(message),
      onDown: () => this.#gate.linkDown(),
      onTick: () => this.#renewToken(),
      onFenced: (reason) => void this.stop(reason),
      isFenced: () => this.#isFenced(),
    })
  }

  async run(): Promise<void> {
    setInterval(() => this.#turns.tick(), 50)
    setInterval(() => this.#gate.tick(), 1000)
    this.#relayUrl = await this.#relay.listen()
    this.#link.start()
    try {
      this.#manifest = await this.#fetchManifest()
      await crashPoint('manifest.fetched')
      // Left by an agent that was killed: two OpenCodes must not share one home.
      if (findMarked(this.#marked).length > 0) await killMarked(this.#marked)
      this.#apply()
      await crashPoint('manifest.applied')
      const base = this.#rememberBase()
      await this.#startOpencode(false)
      await base
      await this.#turns.endForgotten(this.#toldBefore)
      await crashPoint('ready.before')
      this.#ready = true
      const bootMs = Date.now() - this.#startedAt
      log('ready', { bootMs })
      this.#link.send({ t: 'ready', bootMs })
    } catch (error) {
      this.#fail(messageOf(error))
    }
  }

  /** Nothing is left behind: questions denied, turn aborted, OpenCode ended, every marked process killed. */
  async stop(reason: string): Promise<void> {
    if (this.#stopping) return
    this.#stopping = true
    log('stopping', { reason })
    await this.#turns.abortAndWait(reason, 5000)
    await this.#current?.stop(2000)
    const killed = await killMarked(this.#marked)
    await this.#writing
    for (
      const until = Date.now() + 1000;
      this.#link.connected && this.#isOwing() && Date.now() < until;
    )
      await sleep(20)
    this.#link.stop()
    this.#relay.close()
    this.#spool.close()
    this.#results.close()
    log('stopped', { killed })
    this.#exit(0)
  }

  #isOwing(): boolean {
    return this.#ackedSeq < this.#spool.lastSeq || this.#results.unacknowledged().length > 0
  }

  #fail(reason: string): void {
    if (this.#stopping) return
    this.#failed = reason.slice(0, 4000)
    log('failed', { reason })
    this.#link.send({ t: 'failed', reason: this.#failed })
  }

  // --- events: disk first, then the link ---

  readonly #emit = <K extends AgentEventKind>(kind: K, data: EventData<K>): void => {
    const at = Date.now()
    this.#emitDone(async () => {
      await crashPoint('spool.before-append')
      this.#spool.append(kind, data, at)
      await crashPoint('spool.after-append')
      this.#schedulePump()
    })
  }

  /** After everything that was emitted before. */
  #emitDone(work: () => void | Promise<void>): void {
    this.#writing = this.#writing
      .then(work)
      .catch((error: unknown) => this.#fail(`Cannot keep events: ${messageOf(error)}`))
  }

  // What is told in one go travels in one message.
  #schedulePump(): void {
    if (this.#pumpScheduled) return
    this.#pumpScheduled = true
    setImmediate(() => {
      this.#pumpScheduled = false
      this.#pump()
    })
  }

  #pump(): void {
    while (this.#link.connected && this.#sentSeq - this.#ackedSeq < maxInFlight) {
      const items = fittingBatch(this.#spool.after(this.#sentSeq, maxBatchItems))
      const last = items.at(-1)
      if (!last || !this.#link.send({ t: 'events', items })) return
      this.#sentSeq = last.seq
    }
  }

  // --- link ---

  #welcome(ackedSeq: number): void {
    this.#gate.linkUp()
    this.#spool.ack(ackedSeq)
    this.#ackedSeq = ackedSeq
    this.#sentSeq = ackedSeq
    if (this.#failed !== null) this.#link.send({ t: 'failed', reason: this.#failed })
    else if (this.#ready) this.#link.send({ t: 'ready', bootMs: 0 })
    this.#pump()
    for (const [id, result] of this.#results.unacknowledged()) this.#sendResult(id, result)
    for (const ask of this.#gate.unanswered()) this.#sendAsk(ask)
    this.#renewToken()
  }

  async #receive(message: Exclude<DownMessage, { t: 'welcome' }>): Promise<void> {
    switch (message.t) {
      case 'ack':
        await crashPoint('ack.before')
        this.#ackedSeq = Math.max(this.#ackedSeq, message.seq)
        this.#spool.ack(message.seq)
        return this.#pump()
      case 'command':
        return this.#commands.receive(message.id, message.kind, message.body)
      case 'resultAck':
        return this.#results.ack(message.commandId)
      case 'answer':
        await crashPoint('answer.received')
        return this.#gate.answer(message.askId, {
          decision: message.decision,
          reason: message.reason,
        })
      case 'token':
        return this.#token.replace(message.token)
    }
  }

  #sendResult(id: string, result: Result): void {
    this.#link.send({ t: 'result', commandId: id, ...result })
  }

  #sendAsk(ask: Ask): void {
    if (ask.answer !== null) return
    const message: UpMessage = {
      t: 'ask',
      askId: AskId.parse(ask.askId),
      tool: ask.tool,
      callId: ask.callId,
      opencodeSessionId: ask.sessionID,
      // The hash is over the whole input; a very long one is shown shortened.
      input: shorten(ask.input).value,
      inputHash: ask.inputHash,
    }
    this.#link.send(message)
  }

  #renewToken(): void {
    if (this.#token.isAging(Date.now())) this.#link.send({ t: 'renew' })
  }

  async #isFenced(): Promise<boolean> {
    try {
      const response = await this.#get('manifest')
      await response.text()
      return response.status === 403 || response.status === 404
    } catch {
      return false
    }
  }

  // --- manifest and OpenCode ---

  #url(path: string): string {
    return `${this.#boot.gatewayUrl}/sandbox/${this.#boot.sessionId}/${path}`
  }

  #get(path: string): Promise<Response> {
    return fetch(this.#url(path), {
      headers: { authorization: `Bearer ${this.#token.value}` },
      redirect: 'error',
      signal: AbortSignal.timeout(15_000),
    })
  }

  async #fetchManifest(): Promise<Manifest> {
    let reason = ''
    for (let tries = 0; tries < 8 && !this.#stopping; tries += 1) {
      if (tries > 0) await sleep(Math.min(250 * 2 ** tries, 5000))
      try {
        const response = await this.#get('manifest')
        const text = await response.text()
        if (response.ok) return Manifest.parse(JSON.parse(text))
        reason = `${response.status} ${text.slice(0, 200)}`
        if (response.status < 500 && response.status !== 429 && response.status !== 401) break
      } catch (error) {
        reason = messageOf(error)
      }
    }
    throw new Error(`Cannot fetch the manifest: ${reason}`)
  }

  #layout(): Manifest['layout'] {
    if (!this.#manifest) throw new Error('The manifest is not here yet')
    return this.#manifest.layout
  }

  #owner() {
    const { uid, gid } = this.#boot
    return uid === undefined ? undefined : { uid, gid: gid ?? uid }
  }

  /** True: something that OpenCode may have loaded was changed behind our back. */
  #apply(): boolean {
    const manifest = this.#manifest as Manifest
    const { copies } = this.#memory.value
    const first = !this.#applied && copies.length === 0
    const outcome = applyManifest(manifest, { owner: this.#owner(), copies, first })
    if (outcome.copies.length !== copies.length) this.#memory.save({ copies: outcome.copies })
    const changed = outcome.files.some((file) =>
      ['written', 'repaired', 'removed'].includes(file.action),
    )
    if (!this.#applied || changed) {
      this.#emit(
        'manifest.applied',
        shorten({ version: manifest.version, files: outcome.files }).value,
      )
    }
    const drifted = this.#applied && outcome.drifted
    this.#applied = true
    return drifted
  }

  async #verifyManifest(): Promise<void> {
    if (!this.#ready) throw new Error('The sandbox is not ready')
    if (!this.#apply()) return
    log('manifest.drifted')
    this.#emit('agent.notice', {
      message: 'Files of the gate were changed and have been restored; OpenCode is restarted',
    })
    const old = this.#current
    await this.#restartOpencode(async () => old?.stop(2000))
  }

  #nextOpencode(): Promise<OpenCode> {
    const next = new Promise<OpenCode>((resolve) => {
      this.#setOpencode = resolve
    })
    return next
  }

  async #startOpencode(restart: boolean): Promise<void> {
    const startedAt = Date.now()
    const manifest = this.#manifest as Manifest
    const opencode = await OpenCode.start({
      binary: this.#boot.opencode,
      manifest,
      environment: this.#environment(),
      owner: this.#owner(),
      logFile: join(this.#boot.stateDir, 'opencode.log'),
      onEvent: (event) => this.#turns.hear(event),
      onExit: (exited, code, signal) => void (this.#current === exited && this.#died(code, signal)),
      onSpawn: () => crashPoint('opencode.spawned'),
    })
    if (!opencode.alive) throw new Error('OpenCode ended at start')
    this.#current = opencode
    this.#emit('opencode.started', {
      version: await versionOf(opencode),
      startMs: Date.now() - startedAt,
      restart,
    })
    this.#setOpencode(opencode)
  }

  #environment(): Record<string, string> {
    const { path, mark, sessionId, generation } = this.#boot
    const searchPath = [...path, process.env['PATH'] ?? '/usr/local/bin:/usr/bin:/bin'].join(':')
    return {
      PATH: searchPath,
      LANG: 'C.UTF-8',
      ...this.#manifest?.environment,
      PROLIFERATE_GATEWAY_URL: this.#relayUrl,
      SANDBOX_MCP_AUTH_TOKEN: this.#localToken,
      GANTRY_MARK: mark,
      GANTRY_SANDBOX: `${sessionId}.${generation}`,
    }
  }

  #died(code: number | null, signal: string | null): void {
    if (this.#stopping) return
    log('opencode.died', { code, signal })
    this.#emit('opencode.died', { code, signal })
    const now = Date.now()
    this.#deaths = [...this.#deaths.filter((at) => now - at < restartWindowMs), now]
    const restarted = this.#restartOpencode(async () => {})
    this.#turns.opencodeDied()
    restarted.catch((error: unknown) =>
      this.#fail(`OpenCode cannot be restarted: ${messageOf(error)}`),
    )
  }

  async #restartOpencode(end: () => Promise<void>): Promise<void> {
    this.#opencode = this.#nextOpencode()
    this.#current = undefined
    await end()
    for (let tries = 1; !this.#stopping; tries += 1) {
      try {
        if (this.#deaths.length > maxRestarts)
          throw new Error(`it died ${this.#deaths.length} times in five minutes`)
        await killMarked(this.#marked)
        this.#apply()
        return await this.#startOpencode(true)
      } catch (error) {
        log('opencode.restart-failed', { reason: messageOf(error), tries })
        if (tries >= 3 || this.#deaths.length > maxRestarts) throw error
        await sleep(1000 * 2 ** tries)
      }
    }
  }

  // --- diff ---

  #diffOptions(): DiffOptions {
    const { home, workspace } = this.#layout()
    return {
      workspace,
      gitDir: `${home}/.gantry-diff.git`,
      owner: this.#owner(),
      environment: { PATH: process.env['PATH'] ?? '/usr/bin:/bin', HOME: home, ...this.#marks() },
      excluded: this.#memory.value.copies.map((path) => path.slice(workspace.length + 1)),
    }
  }

  #marks(): Record<string, string> {
    return {
      GANTRY_MARK: this.#boot.mark,
      GANTRY_SANDBOX: `${this.#boot.sessionId}.${this.#boot.generation}`,
    }
  }

  async #rememberBase(): Promise<void> {
    if (this.#memory.value.baseTree !== null) return
    this.#memory.save({ baseTree: await readBaseTree(this.#diffOptions()) })
  }

  async #diff(maxBytes: number | undefined) {
    const { baseTree } = this.#memory.value
    return baseTree === null ? null : takeDiff(this.#diffOptions(), baseTree, maxBytes)
  }
}

function fittingBatch<T>(items: T[]): T[] {
  let bytes = 0
  const end = items.findIndex((item, index) => {
    bytes += Buffer.byteLength(JSON.stringify(item)) + 1
    return index > 0 && bytes > maxBatchBytes
  })
  return end === -1 ? items : items.slice(0, end)
}

async function versionOf(opencode: OpenCode): Promise<string> {
  const health = (await opencode.request('GET', '/global/health')) as { version?: string } | null
  return health?.version ?? 'unknown'
}
