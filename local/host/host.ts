// The local sandbox host: a loopback server that starts and stops agents as child processes and takes snapshots of
// them. It connects the fleet, the snapshots and the routes. When it is closed, all processes of its sandboxes end and
// their folders stay, so the next host can still save them. main.ts runs it as a part of the stack; the local provider
// (src/adapters/sandboxes/local.ts) calls it.

import { readdirSync, rmSync, statSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { availableParallelism } from 'node:os'
import { dirname, join } from 'node:path'
import { z } from 'zod'
import { EnclosureMode } from '../../src/contract/enclosure.ts'
import type { ProviderCheck } from '../../src/core/ports.ts'
import { openFleet } from '../sandboxes/fleet.ts'
import { checkHost } from './check.ts'
import { serveHostRoute } from './routes.ts'
import { findSandboxLimits } from '../sandboxes/limits.ts'
import { createSlots } from '../processes/slots.ts'
import { findSnapshot, openSnapshots, type Snapshots } from '../snapshots/snapshots.ts'
import { sandboxName } from '../sandboxes/record.ts'
import { makePrivateDir } from '../state/private-files.ts'

const keptMs = 7 * 24 * 3600 * 1000

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
  bootSlots: z.number().int().positive().default(availableParallelism()),
  /** Long enough for fifty sandboxes on a slow machine: whoever gives up only goes to the end of the queue again. */
  queueDeadlineMs: z.number().default(900_000),
  cloneDeadlineMs: z.number().default(180_000),
  /** What may be cloned with this process's rights: GANTRY_LOCAL_REPOSITORIES. */
  localRepositories: z.array(z.string()).default([]),
  bootReleaseMs: z.number().default(60_000),
  stopGraceMs: z.number().default(10_000),
  /** For the agents: how long a turn may stand still, where `turnPatience` is not to count. */
  patience: z.record(z.string(), z.number()).optional(),
  /** Folders that no sandbox may see: the stack's own state. */
  hidden: z.array(z.string()).default([]),
  /** As sandboxes will be told; here for the check alone. */
  enclosure: EnclosureMode.default('auto'),
  leftKeptMs: z.number().default(30 * 60_000),
  /** Kept over restarts. Default: beside the folder of the sandboxes. */
  snapshots: z.string().optional(),
  snapshotMaxBytes: z.number().default(2 * 1024 ** 3),
  snapshotCopyMs: z.number().default(30_000),
  snapshotSearchMs: z.number().default(50_000),
})
export type HostOptions = z.input<typeof HostOptions>

interface Host {
  url: string
  /** What sandboxes are held to, and what not. */
  limits: ProviderCheck[]
  /** Ends every sandbox's processes; the folders stay. */
  close: () => Promise<void>
}

export async function startHost(input: HostOptions): Promise<Host> {
  const options = HostOptions.parse(input)
  const snapshotFolder = options.snapshots ?? join(dirname(options.root), 'snapshots')
  makePrivateDir(options.stateDir)
  pruneLogs(options.stateDir)
  const limits = findSandboxLimits(options.uids !== undefined)

  let snapshots: Snapshots | undefined
  const fleet = await openFleet({
    ...options,
    limits,
    slots: createSlots(options.bootSlots),
    findSnapshot: (organisationId, id) => findSnapshot(snapshotFolder, organisationId, id),
    beforeEnd: async (name) => snapshots?.giveUp(name),
  })
  const opened = await openSnapshots({
    node: options.node,
    mark: options.mark,
    folder: snapshotFolder,
    limits: {
      maxBytes: options.snapshotMaxBytes,
      copyMs: options.snapshotCopyMs,
      searchMs: options.snapshotSearchMs,
    },
    find: (sessionId, generation) => fleet.find(sandboxName(sessionId, generation)),
  })
  snapshots = opened

  const check = async () => [...(await checkHost(options)), ...limits.checks]
  const served = { secret: options.secret, fleet, snapshots: opened, check }
  const server = createServer((request, response) => void serveHostRoute(served, request, response))
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(options.port, '127.0.0.1', resolve)
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    limits: limits.checks,
    close: async () => {
      server.close()
      server.closeAllConnections()
      await opened.close()
      await fleet.close()
    },
  }
}

function pruneLogs(stateDir: string): void {
  for (const name of readdirSync(stateDir)) {
    const path = join(stateDir, name)
    if (/\.log(\.1)?$/.test(name) && Date.now() - statSync(path).mtimeMs > keptMs)
      rmSync(path, { force: true })
  }
}
