import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { availableParallelism } from 'node:os'
import { dirname, join } from 'node:path'
import { z } from 'zod'
import { SessionId, SnapshotId } from '../src/contract/ids.ts'
import type { SandboxInfo } from '../src/core/ports.ts'
import { answer, isAuthorised, readJson } from './host-http.ts'
import { killProcesses } from './processes.ts'
import {
  type Sandbox,
  sandboxName,
  type SandboxSettings,
  startSandbox,
  wantedOf,
} from './sandbox.ts'
import { createSlots } from './slots.ts'
import { serveSnapshots } from './snapshot-routes.ts'
import { findSnapshot, openSnapshots } from './snapshots.ts'
import { makePrivateDir, removeTree } from './state.ts'
import { isTaken, type Uids, usersOf } from './uids.ts'

const maxBodyBytes = 1024 * 1024
const maxRemembered = 10_000
const keptMs = 7 * 24 * 3600 * 1000

const SpecBody = z.strictObject({
  sessionId: SessionId,
  organisationId: z.string().max(100),
  generation: z.number().int().positive(),
  gatewayUrl: z.url(),
  token: z.string().min(1).max(8000),
  repository: z
    .strictObject({
      url: z.string().min(1).max(2000),
      ref: z.string().min(1).max(200).nullable(),
      token: z.string().max(4000).nullable(),
    })
    .nullable(),
  snapshotId: SnapshotId.nullable().default(null),
})

export const HostOptions = z.object({
  /** Callers must show it. */
  secret: z.string().min(16),
  port: z.number().int().default(0),
  root: z.string(),
  stateDir: z.string(),
  mark: z.string(),
  node: z.string(),
  agentFile: z.string(),
  opencode: z.string(),
  path: z.array(z.string()),
  /** First and last user id for sandboxes; absent: they run as this process's user. */
  uids: z.tuple([z.number().int(), z.number().int()]).optional(),
  bootPlaces: z.number().int().positive().default(availableParallelism()),
  queueDeadlineMs: z.number().default(300_000),
  cloneDeadlineMs: z.number().default(180_000),
  bootReleaseMs: z.number().default(60_000),
  stopGraceMs: z.number().default(10_000),
  /** Kept over restarts. Default: beside the folder of the sandboxes. */
  snapshots: z.string().optional(),
  snapshotMaxBytes: z.number().default(2 * 1024 ** 3),
  snapshotCopyMs: z.number().default(30_000),
  snapshotSearchMs: z.number().default(50_000),
})
export type HostOptions = z.input<typeof HostOptions>

export interface Host {
  url: string
  /** Ends every sandbox's processes; the folders stay. */
  close: () => Promise<void>
}

/** The local sandbox host: a loopback server that starts and stops agents as child processes. */
export async function startHost(input: HostOptions): Promise<Host> {
  const options = HostOptions.parse(input)
  const snapshotFolder = options.snapshots ?? join(dirname(options.root), 'snapshots')
  const settings: SandboxSettings = {
    ...options,
    slots: createSlots(options.bootPlaces),
    findSnapshot: (organisationId, id) => findSnapshot(snapshotFolder, organisationId, id),
  }
  settings.stateDir = makePrivateDir(options.stateDir)
  mkdirSync(options.root, { recursive: true, mode: options.uids === undefined ? 0o700 : 0o711 })
  await endLeftovers(options.root, options.uids)
  pruneLogs(options.stateDir)

  const sandboxes = new Map<string, Sandbox>()
  const removing = new Map<string, Promise<void>>()
  /** A create that arrives after its stop must not bring the sandbox back. */
  const removed = new Set<string>()
  let nextUid = options.uids?.[0] ?? 0
  const snapshots = await openSnapshots({
    node: options.node,
    mark: options.mark,
    folder: snapshotFolder,
    limits: {
      maxBytes: options.snapshotMaxBytes,
      copyMs: options.snapshotCopyMs,
      searchMs: options.snapshotSearchMs,
    },
    find: (sessionId, generation) => {
      const name = sandboxName(sessionId, generation)
      return removing.has(name) ? undefined : sandboxes.get(name)
    },
  })

  const server = createServer((request, response) => {
    void serve(request, response).catch((error: unknown) => {
      console.error(error)
      answer(response, 500, { error: 'internal' })
    })
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(options.port, '127.0.0.1', resolve)
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { url, close }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (!isAuthorised(request.headers.authorization, options.secret)) {
      return answer(response, 401, { error: 'unauthenticated' })
    }
    if (request.url === '/sandboxes' && request.method === 'GET') {
      return answer(response, 200, {
        items: [...sandboxes.values()].map((sandbox) => sandbox.info()),
      })
    }
    if (await serveSnapshots(snapshots, request, response)) return
    const match = /^\/sandboxes\/(ses_[0-9a-z]{30})\/([1-9]\d{0,8})$/.exec(request.url ?? '')
    if (match === null) return answer(response, 404, { error: 'not_found' })
    const [, sessionId = '', generation = ''] = match
    const name = sandboxName(sessionId, Number(generation))
    if (request.method === 'GET') {
      const found = sandboxes.get(name)
      return found
        ? answer(response, 200, found.info())
        : answer(response, 404, { error: 'not_found' })
    }
    if (request.method === 'DELETE') {
      await remove(name)
      return answer(response, 204)
    }
    if (request.method !== 'PUT') return answer(response, 405, { error: 'method_not_allowed' })
    const spec = SpecBody.safeParse(await readJson(request, maxBodyBytes))
    if (!spec.success || sandboxName(spec.data.sessionId, spec.data.generation) !== name) {
      return answer(response, 400, { error: 'invalid_request', message: spec.error?.message })
    }
    answer(response, 200, create(name, spec.data))
  }

  // Without an await between the look and the entry, so that two requests cannot both create.
  function create(name: string, spec: z.infer<typeof SpecBody>): SandboxInfo {
    const known = sandboxes.get(name)
    if (known !== undefined) return known.info()
    const { sessionId, generation } = spec
    const gone = (reason: string): SandboxInfo => ({
      sessionId,
      generation,
      state: 'exited',
      reason,
    })
    if (removed.has(name)) return gone('stopped')
    if (existsSync(join(options.root, name))) return gone('The sandbox host was restarted')
    const sandbox = startSandbox(settings, spec, takeUid())
    sandboxes.set(name, sandbox)
    return sandbox.info()
  }

  function takeUid(): number | undefined {
    if (options.uids === undefined) return undefined
    const [first, last] = options.uids
    const used = new Set([...sandboxes.values()].map(({ uid }) => uid))
    for (let tries = first; tries <= last; tries += 1) {
      const uid = nextUid
      nextUid = uid === last ? first : uid + 1
      if (!used.has(uid) && !isTaken(uid)) return uid
    }
    throw new Error(`Cannot start a sandbox: all ${last - first + 1} users are in use`)
  }

  async function remove(name: string): Promise<void> {
    removed.add(name)
    if (removed.size > maxRemembered) removed.delete(removed.values().next().value ?? '')
    const sandbox = sandboxes.get(name)
    if (sandbox === undefined) {
      removeTree(join(options.root, name))
      return
    }
    const already = removing.get(name)
    if (already !== undefined) return already
    const work = snapshots
      .giveUp(name)
      .then(() => sandbox.remove())
      .finally(() => {
        sandboxes.delete(name)
        removing.delete(name)
      })
    removing.set(name, work)
    return work
  }

  async function close(): Promise<void> {
    server.close()
    server.closeAllConnections()
    await snapshots.close()
    await Promise.all([...sandboxes.values()].map((sandbox) => sandbox.end(1500)))
    await endLeftovers(options.root, options.uids)
  }
}

/** Nothing of an earlier run is taken over: its processes are ended and its folders are closed to new sandboxes. */
async function endLeftovers(root: string, uids: Uids | undefined): Promise<void> {
  const names = readdirSync(root).filter((name) => name.startsWith('ses_'))
  const marks = names.flatMap((name) => wantedOf(root, name, undefined).marks)
  await killProcesses({ marks, uids: uids === undefined ? [] : usersOf([root], uids) })
  for (const name of names) {
    const folder = join(root, name)
    if (Date.now() - statSync(folder).mtimeMs > keptMs) {
      removeTree(folder)
    } else {
      if (uids !== undefined) chownSync(folder, process.getuid?.() ?? 0, process.getgid?.() ?? 0)
      chmodSync(folder, 0o700)
    }
  }
}

function pruneLogs(stateDir: string): void {
  for (const name of readdirSync(stateDir)) {
    const path = join(stateDir, name)
    if (/\.log(\.1)?$/.test(name) && Date.now() - statSync(path).mtimeMs > keptMs)
      rmSync(path, { force: true })
  }
}
