import { mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { AppError } from '../src/contract/error.ts'
import type { SandboxInfo, SandboxSpec } from '../src/core/ports.ts'
import { leftSandbox } from './left-sandbox.ts'
import { killProcesses } from './processes.ts'
import { type Sandbox, type SandboxSettings, startSandbox, wantedOf } from './sandbox.ts'
import { closeFolder } from './sandbox-folders.ts'
import { loadRecord, sandboxName } from './sandbox-record.ts'
import { removeTree } from './state.ts'
import { clearTemporary, takeUid, type Uids, usersOf } from './uids.ts'

const maxRemembered = 10_000
const sweepMs = 1000
/** How long what has expired is remembered on disk. */
const keptMs = 7 * 24 * 3600 * 1000

/** All sandboxes of a host, by name, until they are stopped: also those that have ended by themselves. */
export interface Fleet {
  create(spec: SandboxSpec): SandboxInfo
  /** undefined: also while it is being removed. */
  find(name: string): Sandbox | undefined
  get(name: string): SandboxInfo | undefined
  /** null: of every organisation. */
  list(organisationId: string | null): SandboxInfo[]
  extend(name: string, seconds: number): void
  remove(name: string): Promise<void>
  /** Ends every sandbox's processes; the folders stay. */
  close(): Promise<void>
}

export interface FleetSettings extends SandboxSettings {
  uids?: Uids | undefined
  /** Called before a sandbox's processes are ended. */
  beforeEnd(name: string): Promise<void>
}

export async function openFleet(settings: FleetSettings): Promise<Fleet> {
  const { root, uids } = settings
  mkdirSync(root, { recursive: true, mode: uids === undefined ? 0o700 : 0o711 })
  await endLeftovers(root, uids)
  const sandboxes = new Map(findLeft(root).map((each) => [nameOf(each.info()), each]))
  const removing = new Map<string, Promise<void>>()
  const expiring = new Map<string, Promise<void>>()
  /** A create that arrives after its stop must not bring the sandbox back. */
  const removed = new Set<string>()
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
    const sandbox = startSandbox(settings, spec, uid)
    sandboxes.set(name, sandbox)
    return sandbox.info()
  }

  async function remove(name: string): Promise<void> {
    removed.add(name)
    if (removed.size > maxRemembered) removed.delete(removed.values().next().value ?? '')
    const sandbox = sandboxes.get(name)
    if (sandbox === undefined) return removeTree(join(root, name))
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

  // A look that fails, for want of open files for example, is followed by the next one.
  function trySweep(): void {
    try {
      sweep()
    } catch (error) {
      console.error(error)
    }
  }

  function sweep(): void {
    for (const [name, sandbox] of sandboxes) {
      const isOver = sandbox.endsAt() <= Date.now() || sandbox.isHollow()
      if (isOver && !expiring.has(name) && !removing.has(name))
        expiring.set(name, expire(name, sandbox))
    }
    const running = [...sandboxes].filter(([, each]) => each.info().state === 'running')
    settings.limits.watch(running.map(([name, each]) => ({ ...each, name })))
  }

  /** Never rejects. Its entry stays, for it has nothing to expire a second time, until the sandbox is stopped. */
  async function expire(name: string, sandbox: Sandbox): Promise<void> {
    try {
      await settings.beforeEnd(name)
      await sandbox.expire()
    } catch (error) {
      console.error(error)
    }
  }
}

const nameOf = ({ sessionId, generation }: SandboxInfo) => sandboxName(sessionId, generation)
const namesIn = (root: string) => readdirSync(root).filter((name) => name.startsWith('ses_'))

/** Nothing of an earlier run goes on: its processes are ended and its folders are closed to new sandboxes. */
async function endLeftovers(root: string, uids: Uids | undefined): Promise<void> {
  const names = namesIn(root)
  const marks = names.flatMap((name) => wantedOf(root, name, undefined).marks)
  const users = uids === undefined ? [] : usersOf([root], uids)
  await killProcesses({ marks, uids: users })
  for (const uid of users) await clearTemporary(uid)
  for (const name of names) closeFolder(join(root, name))
}

function findLeft(root: string): Sandbox[] {
  return namesIn(root).flatMap((name) => {
    const record = loadRecord(root, name)
    // Without one its agent was never started: it may be made again.
    if (record !== null && record.endsAt + keptMs > Date.now()) return [leftSandbox(root, record)]
    removeTree(join(root, name))
    return []
  })
}
