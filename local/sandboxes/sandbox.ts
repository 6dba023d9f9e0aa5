// One sandbox of the local provider: its folder, its agent's process and everything that this has started. States:
// queued (its workspace is made, it waits for a boot slot), running (the agent has its boot document), exited (with a
// reason; all its processes are ended). It never goes back. The files stay until it is removed or its lifetime is over.
// The fleet starts sandboxes and ends them; snapshots read their folders.

import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Boot, Manifest } from '../../src/contract/manifest.ts'
import type { SandboxFault, SandboxInfo, SandboxSpec } from '../../src/core/ports.ts'
import {
  type AgentLog,
  exitOf,
  fetchAgentProcessManifest,
  leanNode,
  openAgentProcessLog,
  redactAgentProcessLog,
  isAgentProcessReady,
} from './agent-process.ts'
import {
  killProcesses,
  sandboxMark,
  stackMark,
  type Wanted,
  settledWithin,
} from '../processes/processes.ts'
import { freeze, isStill } from '../processes/freeze.ts'
import type { Limits } from './limits.ts'
import { emptySandboxFolder, makeSandboxFolders } from './folders.ts'
import {
  recordFile,
  sandboxName,
  type SandboxRecord,
  saveSandboxRecord,
  recordedProcesses,
} from './record.ts'
import type { Slots } from '../processes/slots.ts'
import { restoreCopy } from '../snapshots/copy.ts'
import { removePrivateTree } from '../state/private-files.ts'
import { clearTemporaryOfUid } from '../users/uids.ts'
import { makeSandboxWorkspace, WorkspaceError } from './workspace.ts'

const run = promisify(execFile)

export interface SandboxSettings {
  /** Folder of all sandboxes. */
  root: string
  /** Logs; closed to sandboxes. */
  stateDir: string
  /** The stack's. */
  mark: string
  node: string
  agentFile: string
  opencode: string
  path: string[]
  slots: Slots
  limits: Limits
  queueDeadlineMs: number
  cloneDeadlineMs: number
  localRepositories: readonly string[]
  /** The boot slot is given back after this time even if the agent has not said that it is ready. */
  bootReleaseMs: number
  stopGraceMs: number
  patience?: Record<string, number> | undefined
  /** Folders that no sandbox may see, beside those of all sandboxes. */
  hidden: readonly string[]
  /** The folder of a snapshot; null: the organisation has none of that id. */
  findSnapshot(organisationId: string, snapshotId: string): string | null
}

export interface Sandbox {
  name: string
  info(): SandboxInfo
  organisationId: string
  folder: string
  uid: number | undefined
  wanted: Wanted
  /** What it was given and must not give away. */
  secrets: { name: string; value: string }[]
  memoryMb: number | null
  /** Until when it lives and its files are kept. */
  endsAt(): number
  extend(endsAt: number): void
  /** Somebody has removed its folder under it: it cannot work any more, and its agent may not notice. */
  isHollow(): boolean
  /** Its time or its folder is over: ends its processes and keeps of its folder only that it was there. */
  expire(): Promise<void>
  /** Ends its processes and removes its folder. */
  remove(): Promise<void>
  /** Its processes stand still until it ends. */
  freeze(): Promise<void>
  /** Ends its processes; the folder stays. */
  end(graceMs: number): Promise<void>
}

/**
 * Starts a sandbox in the background: it makes the workspace, takes a boot slot and starts the agent. If a slot is free at
 * once, the workspace is made while the agent starts.
 */
export function startLocalSandbox(
  settings: SandboxSettings,
  spec: SandboxSpec,
  uid: number | undefined,
): Sandbox {
  const name = sandboxName(spec.sessionId, spec.generation)
  const folder = join(settings.root, name)
  const homeFolder = join(folder, 'home')
  const wanted = recordedProcesses(settings.root, name, uid)
  const secrets = [spec.token, spec.repository?.token ?? '']
  const cancelled = new AbortController()
  let state: SandboxInfo['state'] = 'queued'
  let reason: string | null = null
  let fault: SandboxFault | null = null
  let child: ChildProcess | undefined
  let over: Promise<void> | undefined
  const startedAt = Date.now()
  const record: SandboxRecord = {
    sessionId: spec.sessionId,
    generation: spec.generation,
    organisationId: spec.organisationId,
    ...(uid === undefined ? {} : { uid }),
    startedAt,
    endsAt: startedAt + spec.limits.lifetimeSeconds * 1000,
  }

  const running = boot().catch(fail)

  return {
    name,
    info: () => ({
      sessionId: spec.sessionId,
      generation: spec.generation,
      state,
      reason,
      startedAt,
      fault,
    }),
    organisationId: spec.organisationId,
    folder,
    uid,
    wanted,
    secrets: [
      { name: 'session token', value: spec.token },
      { name: 'repository token', value: spec.repository?.token ?? '' },
    ],
    memoryMb: spec.limits.memoryMb,
    endsAt: () => record.endsAt,
    extend: (endsAt) => {
      record.endsAt = endsAt
      saveSandboxRecord(folder, record)
    },
    freeze: async () => void (await freeze(wanted)),
    end,
    isHollow,
    expire: async () => {
      await end(
        settings.stopGraceMs,
        isHollow() ? 'Its folder was removed' : 'Its lifetime is over',
      )
      if (existsSync(folder)) emptySandboxFolder(folder)
      if (uid !== undefined) await clearTemporaryOfUid(uid)
    },
    remove: async () => {
      await end(settings.stopGraceMs)
      removePrivateTree(folder)
      if (uid !== undefined) await clearTemporaryOfUid(uid)
    },
  }

  // The folder itself proves nothing: the agent makes missing folders again, empty.
  function isHollow(): boolean {
    return state !== 'exited' && !existsSync(join(folder, recordFile))
  }

  async function boot(): Promise<void> {
    makeSandboxFolders(folder, uid, record)
    if (spec.image !== null)
      throw new WorkspaceError(
        'user',
        `Cannot boot "${spec.image}": the local provider has no images`,
      )
    // A clone waits for the network: it holds no slot meanwhile.
    const isClone = spec.snapshotId === null && spec.repository !== null
    const slot = isClone ? undefined : settings.slots.takeFree()
    if (slot === undefined) await fill()
    const release = slot ?? (await takeSlot())
    try {
      await runAgent(release, slot === undefined ? async () => {} : fill)
    } finally {
      release()
    }
  }

  async function fill(): Promise<void> {
    await (spec.snapshotId === null ? makeWorkspaceOf(spec.repository) : restore(spec.snapshotId))
    const filled = [join(folder, 'workspace'), ...(spec.snapshotId === null ? [] : [homeFolder])]
    if (uid !== undefined) await run('chown', ['-hR', `${uid}:${uid}`, ...filled])
  }

  async function makeWorkspaceOf(repository: SandboxSpec['repository']): Promise<void> {
    await makeSandboxWorkspace({
      path: join(folder, 'workspace'),
      repository,
      environment: marks(),
      settingsDir: join(folder, 'agent'),
      localRepositories: settings.localRepositories,
      timeoutMs: settings.cloneDeadlineMs,
      signal: cancelled.signal,
    })
  }

  async function restore(snapshotId: string): Promise<void> {
    const snapshot = settings.findSnapshot(spec.organisationId, snapshotId)
    if (snapshot === null) throw new Error(`Cannot start from snapshot "${snapshotId}": not found`)
    await restoreCopy(snapshot, folder, {
      env: marks(),
      timeoutMs: settings.cloneDeadlineMs,
      signal: cancelled.signal,
    })
  }

  async function takeSlot(): Promise<() => void> {
    const late = AbortSignal.timeout(settings.queueDeadlineMs)
    try {
      return await settings.slots.take(AbortSignal.any([cancelled.signal, late]))
    } catch (error) {
      if (!late.aborted) throw error
      const seconds = settings.queueDeadlineMs / 1000
      throw new Error(`No place to boot within ${seconds} s: too many sandboxes start at once`, {
        cause: error,
      })
    }
  }

  /** The agent does nothing before it has its boot document; meanwhile the rest is done. */
  async function runAgent(release: () => void, prepare: () => Promise<void>): Promise<void> {
    cancelled.signal.throwIfAborted()
    const log = openAgentProcessLog(join(settings.stateDir, `${name}.log`), secrets)
    const agent = spawnAgent()
    child = agent
    const timer = setTimeout(release, settings.bootReleaseMs)
    const onLine = (line: string) => void (isAgentProcessReady(line) && release())
    log.follow(agent.stdout, onLine)
    log.follow(agent.stderr, onLine)
    agent.stdin.on('error', () => undefined) // its death is seen below
    const ended = exitOf(agent)
    try {
      const [manifest] = await Promise.all([
        fetchAgentProcessManifest(spec, cancelled.signal),
        prepare(),
      ])
      agent.stdin.end(`${JSON.stringify(bootDocument(manifest))}\n`)
      state = 'running'
      const how = await ended
      release()
      await exit(`The agent ended with ${how}`, log)
    } catch (error) {
      await fail(error, log)
    } finally {
      clearTimeout(timer)
    }
  }

  function spawnAgent() {
    const [command = '', ...args] = settings.limits.wrap(
      [settings.node, ...leanNode, settings.agentFile],
      spec.limits.processes,
    )
    return spawn(command, args, {
      cwd: join(folder, 'agent'),
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe'],
      env: agentEnvironment(),
    })
  }

  /** Has an effect once. Whatever the sandbox has left running is ended, too. */
  function exit(why: string, log?: AgentLog): Promise<void> {
    over ??= (async () => {
      if (log !== undefined) await settledWithin(log.read(), 30) // its last lines are still in the pipe
      const tail = log?.tail() ?? ''
      const said = tail === '' ? why : `${why}:\n${tail}`
      await killProcesses(wanted, { graceMs: cancelled.signal.aborted ? 0 : 500 })
      log?.close()
      reason = cancelled.signal.aborted ? (cancelled.signal.reason as Error).message : said
      state = 'exited' // not before its last process has: whoever reads it may take the folder
    })()
    return over
  }

  function fail(error: unknown, log?: AgentLog): Promise<void> {
    // If the sandbox was ended meanwhile, the failure is nobody's fault.
    if (error instanceof WorkspaceError && !cancelled.signal.aborted) fault = error.fault
    return exit(redactAgentProcessLog((error as Error).message, secrets), log)
  }

  async function end(graceMs: number, why = 'stopped'): Promise<void> {
    cancelled.abort(new Error(why))
    child?.kill('SIGTERM')
    await settledWithin(running, isStill(wanted) ? 0 : graceMs) // frozen processes cannot end by themselves
    await killProcesses(wanted)
    await running
  }

  function marks(): Record<string, string> {
    return { [stackMark]: settings.mark, [sandboxMark]: name }
  }

  function agentEnvironment(): Record<string, string> {
    const path = process.env['PATH'] ?? '/usr/bin:/bin'
    return { PATH: path, HOME: join(folder, 'agent'), LANG: 'C.UTF-8', ...marks() }
  }

  function bootDocument(manifest: Manifest | undefined): Boot {
    return {
      gatewayUrl: spec.gatewayUrl,
      sessionId: spec.sessionId,
      generation: spec.generation,
      token: spec.token,
      stateDir: join(folder, 'agent'),
      opencode: settings.opencode,
      path: settings.path,
      ...(uid === undefined ? {} : { uid, gid: uid }),
      mark: settings.mark,
      hidden: [settings.root, ...settings.hidden],
      limits: {
        ...(spec.limits.processes && { processes: spec.limits.processes }),
        ...(spec.limits.memoryMb && { memoryMb: spec.limits.memoryMb }),
      },
      ...(settings.patience && { patience: settings.patience }),
      ...(manifest === undefined ? {} : { manifest }),
    }
  }
}
