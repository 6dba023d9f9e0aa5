// Keeps one OpenCode running on the files of the manifest. It ends what an earlier agent left, writes the manifest's
// files before each start and each turn, and starts OpenCode again when it dies or when such a file was changed. If
// OpenCode dies more than five times in five minutes, the sandbox is reported as failed. The agent owns it; turns wait
// for `opencode()`.

import { join } from 'node:path'
import type { EnclosureReport } from '../../src/contract/enclosure.ts'
import type { Boot, Layout, Manifest, Upstream } from '../../src/contract/manifest.ts'
import { crashPoint } from '../crash-points.ts'
import { chooseEnclosures, type Enclosure, type EnclosureInput } from '../enclosure/enclosure.ts'
import { findMasks, type Mask, untrackedMasks } from '../enclosure/masks.ts'
import type { Run } from '../enclosure/reader.ts'
import type { Held } from '../enclosure/held.ts'
import type { Emit } from '../memory/spool.ts'
import type { Owner } from '../workspace/folder.ts'
import { log, messageOf, sleep } from '../log.ts'
import type { Memory } from '../memory/memory.ts'
import { shellPath } from '../shell.ts'
import { NotEnclosed, OpenCode, type OpenCodeEvent } from './opencode.ts'
import { findMarked, killMarked, type Marked } from '../marked-processes.ts'
import { shorten } from '../shorten.ts'
import { takeWorkspaceSkills } from '../workspace/skills.ts'
import { applyWorkspaceManifest, writeWorkspaceFixtures } from '../workspace/workspace.ts'

const maxDeaths = 5
const deathsWithinMs = 5 * 60_000
const startTries = 3
const trackedWithinMs = 5000
/** A process that has not ended this long after SIGKILL waits for its disk, maybe for ever. */
const deathWithinMs = 10_000

interface SupervisorOptions {
  boot: Boot
  memory: Memory
  emit: Emit
  marked: Marked
  /** What only the agent knows: the relay's address and the local token. */
  environment: () => Record<string, string>
  /** So that what the agent starts itself is found like everything else. */
  marks: Record<string, string>
  /** Runs a program over the sandbox's files. */
  run: Run
  /** The connections from inside an enclosure. */
  serve: EnclosureInput['serve']
  onEvent: (event: OpenCodeEvent) => void
  onDied: () => void
  /** OpenCode cannot be brought back. */
  onFailed: (reason: string) => void
}

export class Supervisor {
  readonly #options: SupervisorOptions
  #manifest: Manifest | undefined
  #applied = false
  /** Those that are left to try, the strongest first; once OpenCode has run in one, it stays with it. */
  #enclosures: Enclosure[] = []
  #hasEntered = false
  #running: OpenCode | undefined
  #next: Promise<OpenCode>
  #resolveNext!: (opencode: OpenCode) => void
  #deaths: number[] = []
  /** The one that the agent killed itself: its end does not count as a death. */
  #killed: OpenCode | undefined
  #stopping = false

  constructor(options: SupervisorOptions) {
    this.#options = options
    this.#next = this.#expectNext()
  }

  /** Waits while it is being started. */
  opencode(): Promise<OpenCode> {
    return this.#next
  }

  get layout(): Layout {
    if (!this.#manifest) throw new Error('The manifest is not here yet')
    return this.#manifest.layout
  }

  get privateHosts(): readonly string[] {
    return this.#manifest?.privateHosts ?? []
  }

  get upstreams(): readonly Upstream[] {
    return this.#manifest?.upstreams ?? []
  }

  get owner(): Owner | undefined {
    const { uid, gid } = this.#options.boot
    return uid === undefined ? undefined : { uid, gid: gid ?? uid }
  }

  /** What the kernel holds OpenCode to. Known once it has been started. */
  get enclosure(): EnclosureReport {
    if (!this.#enclosures[0]) throw new Error('The manifest is not here yet')
    return this.#enclosures[0].report
  }

  /** Walls as strong as OpenCode's for what the agent runs over its files. */
  async hold(): Promise<Held> {
    const [strongest] = this.#enclosures
    if (!strongest) throw new Error('The manifest is not here yet')
    const held = strongest.hold()
    try {
      await held.entered
      return held
    } catch (error) {
      await this.#next // which walls OpenCode has is known once it runs
      if (this.#enclosures[0] === strongest) throw error
      return this.hold()
    }
  }

  /** Ends what an agent that was killed has left, before anything is started: two OpenCodes must not share one home. */
  async endLeftovers(): Promise<void> {
    if (findMarked(this.#options.marked).length > 0) await killMarked(this.#options.marked)
  }

  async start(manifest: Manifest): Promise<void> {
    this.#manifest = this.#withSkills(manifest)
    this.#enclosures = this.#chooseEnclosures(manifest)
    // Once: from the base on what the workspace has is the session's work.
    if (this.#options.memory.value.baseTree === null) writeWorkspaceFixtures(manifest, this.owner)
    this.#apply()
    await crashPoint('manifest.applied')
    await this.#start(false)
  }

  /** Told at each start: the control plane keeps the first word. */
  #withSkills(manifest: Manifest): Manifest {
    const { boot, emit } = this.#options
    const { reads, files } = takeWorkspaceSkills(manifest, join(boot.stateDir, 'skills.json'))
    for (const read of reads) emit('skill.read', read)
    return { ...manifest, files: [...manifest.files, ...files] }
  }

  /** Before each turn. What OpenCode may have loaded meanwhile is not trusted, so it is started anew after a drift. */
  async verify(): Promise<void> {
    if (!this.#apply()) return
    log('manifest.drifted')
    this.#options.emit('agent.notice', {
      message: 'Files of the gate were changed and have been restored; OpenCode is restarted',
    })
    const old = this.#running
    await this.#restart(async () => old?.stop(2000))
  }

  /** Ends an OpenCode that hangs. Resolves when it is dead; from then on `opencode()` waits for the next one. */
  async kill(): Promise<void> {
    const hung = this.#running
    if (!hung) return
    this.#killed = hung
    if (await hung.end(deathWithinMs)) return
    this.#options.onFailed(`OpenCode cannot be ended: it is still there after ${deathWithinMs} ms`)
  }

  async stop(graceMs: number): Promise<void> {
    this.#stopping = true
    await this.#running?.stop(graceMs)
  }

  /** True: something that OpenCode may have loaded was changed behind our back. */
  #apply(): boolean {
    const manifest = this.#manifest as Manifest
    const { memory, emit } = this.#options
    const { copies } = memory.value
    const first = !this.#applied && copies.length === 0
    const outcome = applyWorkspaceManifest(manifest, { owner: this.owner, copies, first })
    if (outcome.copies.length !== copies.length) memory.save({ copies: outcome.copies })
    const changed = outcome.files.some(({ action }) => action !== 'kept' && action !== 'skipped')
    if (!this.#applied || changed) {
      emit('manifest.applied', shorten({ version: manifest.version, files: outcome.files }).value)
    }
    const drifted = this.#applied && outcome.drifted
    this.#applied = true
    return drifted
  }

  async #start(restart: boolean): Promise<void> {
    const startedAt = Date.now()
    const opencode = await this.#startEnclosed()
    if (!opencode.alive) throw new Error('OpenCode ended at start')
    if (!this.#hasEntered) this.#tellOfUpstreams()
    this.#hasEntered = true
    this.#running = opencode
    const startMs = Date.now() - startedAt
    this.#options.emit('opencode.started', { version: opencode.version, startMs, restart })
    this.#resolveNext(opencode)
  }

  /** Walls that were once there are never left out at a later start: the session counts on them. */
  async #startEnclosed(): Promise<OpenCode> {
    const [enclosure, weaker] = this.#enclosures as [Enclosure, Enclosure?]
    try {
      return await this.#startIn(enclosure)
    } catch (error) {
      if (!(error instanceof NotEnclosed) || this.#hasEntered || !weaker) throw error
      log('enclosure.not-entered', { how: enclosure.report.how, reason: error.message })
      weaker.report.why = `${enclosure.report.how}: ${error.message}`.slice(0, 1000)
      this.#enclosures.shift()
      return this.#startEnclosed()
    }
  }

  /** Outside of a full enclosure their ports would be everybody's on this machine. */
  #tellOfUpstreams(): void {
    if (this.upstreams.length === 0 || this.enclosure.level === 'full') return
    const hosts = this.upstreams.map(({ host }) => host).join(', ')
    this.#options.emit('agent.notice', {
      message: `Secrets for ${hosts} cannot be used: this sandbox has no full enclosure`,
    })
  }

  #chooseEnclosures(manifest: Manifest): Enclosure[] {
    const { boot, marks, serve } = this.#options
    const path = this.#searchPath().split(':')
    return chooseEnclosures({ boot, manifest, owner: this.owner, path, marks, serve })
  }

  async #startIn(enclosure: Enclosure): Promise<OpenCode> {
    const { boot } = this.#options
    const masks = enclosure.report.level === 'full' ? await this.#findMasks() : []
    if (masks.length > 0) log('secrets.masked', { count: masks.length })
    return OpenCode.start({
      binary: boot.opencode,
      manifest: this.#manifest as Manifest,
      environment: this.#environment(),
      enclosure,
      masks,
      logFile: join(boot.stateDir, 'opencode.log'),
      onEvent: this.#options.onEvent,
      onExit: (exited, code, signal) => {
        if (this.#running === exited) this.#died(code, signal, exited === this.#killed)
      },
      onSpawn: () => crashPoint('opencode.spawned'),
    })
  }

  /** If git cannot say in time which files it tracks, all are masked. */
  async #findMasks(): Promise<Mask[]> {
    const { workspace } = this.layout
    const declared = new Set(this.#options.memory.value.copies)
    const secrets = findMasks(workspace).filter(({ path }) => !declared.has(path))
    const asked = untrackedMasks(secrets, workspace, this.#options.run)
    return Promise.race([asked, sleep(trackedWithinMs).then(() => secrets)]).catch(() => secrets)
  }

  #searchPath(): string {
    const { path } = this.#options.boot
    return [...path, process.env['PATH'] ?? '/usr/local/bin:/usr/bin:/bin'].join(':')
  }

  #environment(): Record<string, string> {
    return {
      PATH: this.#searchPath(),
      LANG: 'C.UTF-8',
      ...this.#manifest?.environment,
      ...this.#options.environment(),
      // OpenCode runs commands by it.
      SHELL: shellPath(),
    }
  }

  #died(code: number | null, signal: string | null, wasKilled: boolean): void {
    if (this.#stopping) return
    log('opencode.died', { code, signal })
    this.#options.emit('opencode.died', { code, signal })
    const now = Date.now()
    this.#deaths = this.#deaths.filter((at) => now - at < deathsWithinMs)
    if (!wasKilled) this.#deaths.push(now)
    const restarted = this.#restart(async () => {})
    this.#options.onDied()
    restarted.catch(() => undefined) // told already
  }

  /** If no OpenCode can be started again, the sandbox has failed: turns would wait for one for ever. */
  async #restart(endOld: () => Promise<void>): Promise<void> {
    this.#next = this.#expectNext()
    this.#running = undefined
    try {
      await endOld()
      await this.#startAgain()
    } catch (error) {
      this.#options.onFailed(`OpenCode cannot be restarted: ${messageOf(error)}`)
      throw error
    }
  }

  async #startAgain(): Promise<void> {
    for (let tries = 1; !this.#stopping; tries += 1) {
      if (this.#deaths.length > maxDeaths) {
        throw new Error(`it died ${this.#deaths.length} times in five minutes`)
      }
      try {
        await killMarked(this.#options.marked)
        this.#apply()
        if (this.#stopping) return
        return await this.#start(true)
      } catch (error) {
        log('opencode.restart-failed', { reason: messageOf(error), tries })
        if (tries >= startTries) throw error
        await sleep(1000 * 2 ** tries)
      }
    }
  }

  #expectNext(): Promise<OpenCode> {
    return new Promise((resolve) => {
      this.#resolveNext = resolve
    })
  }
}
