// All sandboxes of a host, by name, until they are stopped, also those that have ended by themselves or that an earlier
// host has left. A create that is repeated finds the same sandbox, and one that arrives after the stop does not bring
// it back. Once a second it ends what has outlived its lifetime or lost its folder, and holds the others to their
// memory limits; time in which the machine slept does not count. The routes of the sandbox host call it.

import { existsSync, mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { AppError } from '../../src/contract/error.ts'
import type { SandboxInfo, SandboxSpec } from '../../src/core/ports.ts'
import { killProcesses } from '../processes/processes.ts'
import { type Sandbox, type SandboxSettings, startLocalSandbox } from './sandbox.ts'
import { closeSandboxFolder, emptySandboxFolder } from './folders.ts'
import { loadSandboxRecord, sandboxName, type SandboxRecord, recordedProcesses } from './record.ts'
import { removePrivateTree } from '../state/private-files.ts'
import { clearTemporaryOfUid, takeUid, type Uids, usersOf } from '../users/uids.ts'

const maxRemembered = 10_000
const sweepMs = 1000
/** Looks are a second apart. If this much more has passed, the machine was suspended meanwhile. */
const suspendedMs = 10_000
/** How long what has expired is remembered on disk. */
const keptMs = 7 * 24 * 3600 * 1000

export interface Fleet {
  create(spec: SandboxSpec): SandboxInfo
  /** undefined: there is none, or it is being removed. */
  find(name: string): Sandbox | undefined
  get(name: string): SandboxInfo | undefined
  /** null: of every organisation. */
  list(organisationId: string | null): SandboxInfo[]
  extend(name: string, seconds: number): void
  remove(name: string): Promise<void>
  /** Ends every sandbox's processes; the folders stay. */
  close(): Promise<void>
}

interface FleetSettings extends SandboxSettings {
  uids?: Uids | undefined
  /** So long at least the files of an earlier host's sandboxes stay: their sessions may still save them. */
  leftKeptMs: number
  /** Called before a sandbox's processes are ended. */
  beforeEnd(name: string): Promise<void>
}

export async function openFleet(settings: FleetSettings): Promise<Fleet> {
  const { root, uids } = settings
  mkdirSync(root, { recursive: true, mode: uids === undefined ? 0o700 : 0o711 })
  await endLeftovers(root, uids)
  const left = findLeft(root, Date.now() + settings.leftKeptMs)
  const sandboxes = new Map(left.map((each) => [each.name, each]))
  const removing = new Map<string, Promise<void>>()
  const expiring = new Map<string, Promise<void>>()
  /** A create that arrives after its stop must not bring the sandbox back. */
  const removed = new Set<string>()
  let sweptAt = Date.now()
  const sweeping = setInterval(trySweep, sweepMs).unref()

  return {
    create,
    find: (name) => (removing.has(name) ? undefined : sandboxes.get(name)),
    get: (name) => sandboxes.get(name)?.info(),
    list: (organisationId) =>
      [...sandboxes.values()]
        .filter((each) => organisationId === null || each.organisationId === organisationId)
        .map((each) => each.info()),
    extend: (name, seconds) => {
      const sandbox = removing.has(name) || expiring.has(name) ? undefined : sandboxes.get(name)
      if (sandbox === undefined || sandbox.info().state === 'exited')
        throw new AppError('not_found', 'Cannot extend the sandbox: it does not run')
      sandbox.extend(Date.now() + seconds * 1000)
    },
    remove,
    close: async () => {
      clearInterval(sweeping)
      await Promise.all([...sandboxes.values()].map((sandbox) => sandbox.end(1500)))
      await endLeftovers(root, uids)
    },
  }

  // Without an await between the look and the entry, so that two requests cannot both create.
  function create(spec: SandboxSpec): SandboxInfo {
    const { sessionId, generation } = spec
    const name = sandboxName(sessionId, generation)
    const known = sandboxes.get(name)
    if (known !== undefined) return known.info()
    if (removed.has(name))
      return { sessionId, generation, state: 'exited', reason: 'stopped', startedAt: Date.now() }
    const used = new Set([...sandboxes.values()].map(({ uid }) => uid))
    const uid = uids === undefined ? undefined : takeUid(uids, used)
    const sandbox = startLocalSandbox(settings, spec, uid)
    sandboxes.set(name, sandbox)
    return sandbox.info()
  }

  async function remove(name: string): Promise<void> {
    removed.add(name)
    if (removed.size > maxRemembered) removed.delete(removed.values().next().value ?? '')
    const sandbox = sandboxes.get(name)
    if (sandbox === undefined) return removePrivateTree(join(root, name))
    const already = removing.get(name)
    if (already !== undefined) return already
    const work = settings
      .beforeEnd(name)
      .then(() => expiring.get(name))
      .then(() => sandbox.remove())
      .then(() => {
        sandboxes.delete(name)
        expiring.delete(name)
      })
      .finally(() => removing.delete(name))
    removing.set(name, work)
    return work
  }

  // If a look fails, for example because too many files are open, the next one follows a second later.
  function trySweep(): void {
    try {
      sweep()
    } catch (error) {
      console.error(error)
    }
  }

  /** A lifetime is for what can work: the time in which the machine slept is added to it. */
  function addSuspension(): void {
    const ms = Date.now() - sweptAt - sweepMs
    sweptAt = Date.now()
    if (ms < suspendedMs) return
    for (const sandbox of sandboxes.values())
      if (sandbox.info().state !== 'exited') sandbox.extend(sandbox.endsAt() + ms)
  }

  function sweep(): void {
    addSuspension()
    for (const [name, sandbox] of sandboxes) {
      const isOver = sandbox.endsAt() <= Date.now() || sandbox.isHollow()
      if (isOver && !expiring.has(name) && !removing.has(name))
        expiring.set(name, expire(name, sandbox))
    }
    settings.limits.watch([...sandboxes.values()].filter((each) => each.info().state === 'running'))
  }

  /** Never rejects. The entry in `expiring` stays until the sandbox is stopped, so that it expires once. */
  async function expire(name: string, sandbox: Sandbox): Promise<void> {
    try {
      await settings.beforeEnd(name)
      await sandbox.expire()
    } catch (error) {
      console.error(error)
    }
  }
}

const namesIn = (root: string) => readdirSync(root).filter((name) => name.startsWith('ses_'))

/** Nothing of an earlier run goes on: its processes are ended and its folders are closed to new sandboxes. */
async function endLeftovers(root: string, uids: Uids | undefined): Promise<void> {
  const names = namesIn(root)
  const marks = names.flatMap((name) => recordedProcesses(root, name, undefined).marks)
  const users = uids === undefined ? [] : usersOf([root], uids)
  await killProcesses({ marks, uids: users })
  for (const uid of users) await clearTemporaryOfUid(uid)
  for (const name of names) closeSandboxFolder(join(root, name))
}

function findLeft(root: string, keptUntil: number): Sandbox[] {
  return namesIn(root).flatMap((name) => {
    const record = loadSandboxRecord(root, name)
    // Without a record its agent was never started, and the sandbox may be created again.
    if (record !== null && record.endsAt + keptMs > Date.now())
      return [leftSandbox(root, record, keptUntil)]
    removePrivateTree(join(root, name))
    return []
  })
}

/**
 * One of an earlier host: its processes have been ended, its files are kept until it is stopped or its time is over.
 */
function leftSandbox(root: string, record: SandboxRecord, keptUntil: number): Sandbox {
  const { sessionId, generation, organisationId, startedAt } = record
  const name = sandboxName(sessionId, generation)
  const folder = join(root, name)
  const reason = 'The sandbox host was restarted'
  return {
    name,
    info: () => ({ sessionId, generation, state: 'exited', reason, startedAt }),
    organisationId,
    folder,
    uid: record.uid, // taken, so that no other sandbox gets it meanwhile
    wanted: recordedProcesses(root, name, undefined),
    secrets: [],
    memoryMb: null,
    endsAt: () => Math.max(record.endsAt, keptUntil),
    extend: () => undefined,
    isHollow: () => false,
    freeze: async () => undefined,
    end: async () => undefined,
    expire: async () => void (existsSync(folder) && emptySandboxFolder(folder)),
    remove: async () => removePrivateTree(folder),
  }
}
