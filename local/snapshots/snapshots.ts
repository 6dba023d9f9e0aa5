// The snapshots of a sandbox host, in a folder that is closed to sandboxes. A snapshot is made beside the others and
// moved among them when it is whole, so a half one is never found. Requests for the same id share one snapshot, a
// request after the deletion does not bring it back, and of one sandbox only one is taken at a time. The host's routes
// call it; a sandbox that ends makes it give up what is being copied.

import { randomBytes } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { AppError } from '../../src/contract/error.ts'
import { SessionId } from '../../src/contract/ids.ts'
import type { SandboxInfo } from '../../src/core/ports.ts'
import type { Wanted } from '../processes/processes.ts'
import { createSlots } from '../processes/slots.ts'
import { contentFolder, type TakeLimits } from './take.ts'
import { clearUnfinishedTake, runTaker, type TakerOptions } from './taker.ts'
import { makePrivateDir, removePrivateTree } from '../state/private-files.ts'

export const SnapshotOrder = z.strictObject({
  sessionId: SessionId,
  generation: z.number().int().positive(),
  secrets: z
    .array(z.strictObject({ name: z.string().max(500), value: z.string().max(1024 * 1024) }))
    .max(5000),
  generatedFiles: z.array(z.string().max(1000)).max(500).default([]),
})
export type SnapshotOrder = z.infer<typeof SnapshotOrder>

interface SnapshotRecord {
  snapshotId: string
  organisationId: string
  bytes: number
  createdAt: number
  source: { sessionId: string; generation: number }
}

interface SnapshotsOptions extends TakerOptions {
  /** Sandboxes cannot enter it. */
  folder: string
  limits: TakeLimits
  find(sessionId: string, generation: number): SnapshotSource | undefined
}

/** A sandbox, as far as a snapshot needs to know it. */
interface SnapshotSource {
  name: string
  organisationId: string
  folder: string
  uid: number | undefined
  wanted: Wanted
  /** What it was given and must not give away. */
  secrets: { name: string; value: string }[]
  info(): Pick<SandboxInfo, 'state'>
}

export interface Snapshots {
  take(organisationId: string, snapshotId: string, order: SnapshotOrder): Promise<SnapshotRecord>
  load(organisationId: string, snapshotId: string): SnapshotRecord | null
  remove(organisationId: string, snapshotId: string): Promise<void>
  /** The sandbox is about to go: what is being copied of it is given up. */
  giveUp(sandbox: string): Promise<void>
  close(): Promise<void>
}

interface Taking {
  sandbox: string
  cancelled: AbortController
  done: Promise<SnapshotRecord>
}

const atOnce = 2
const maxRemembered = 10_000

/** Where the files of a snapshot are; null: there is none, or it is another organisation's. */
export function findSnapshot(folder: string, organisationId: string, id: string): string | null {
  const path = join(folder, organisationId, id)
  return isName(organisationId) && isName(id) && existsSync(join(path, 'meta.json')) ? path : null
}

const isName = (text: string) => /^[a-z]+_[0-9a-z]{1,60}$/.test(text)

export async function openSnapshots(options: SnapshotsOptions): Promise<Snapshots> {
  const folder = makePrivateDir(options.folder)
  const drafts = makePrivateDir(join(folder, '.drafts'))
  for (const name of readdirSync(drafts)) await clearUnfinishedTake(join(drafts, name))
  const taking = new Map<string, Taking>()
  /** A request that arrives after the deletion must not bring the snapshot back. */
  const removed = new Set<string>()
  const slots = createSlots(atOnce)
  /** The last snapshot of each sandbox: the end of one copy would let the sandbox move during another. */
  const turns = new Map<string, Promise<unknown>>()

  return {
    load,
    take: async (organisationId, snapshotId, order) => {
      const known = load(organisationId, snapshotId)
      if (known !== null) return ofSession(known, order)
      const key = `${organisationId}/${snapshotId}`
      const joined = taking.get(key)
      if (joined !== undefined) return ofSession(await joined.done, order)
      if (removed.has(key)) throw new AppError('not_found', `Snapshot "${snapshotId}" was deleted`)
      return start(key, organisationId, snapshotId, order)
    },
    remove: async (organisationId, snapshotId) => {
      const key = `${organisationId}/${snapshotId}`
      removed.add(key)
      if (removed.size > maxRemembered) removed.delete(removed.values().next().value ?? '')
      await cancel((_, each) => each === key, 'the snapshot was deleted')
      const path = findSnapshot(folder, organisationId, snapshotId)
      if (path === null) return
      const gone = draftOf(snapshotId)
      renameSync(path, gone)
      removePrivateTree(gone)
    },
    giveUp: (sandbox) => cancel((each) => each.sandbox === sandbox, 'the sandbox was stopped'),
    close: () => cancel(() => true, 'the sandbox host has ended'),
  }

  function load(organisationId: string, snapshotId: string): SnapshotRecord | null {
    const path = findSnapshot(folder, organisationId, snapshotId)
    if (path === null) return null
    return JSON.parse(readFileSync(join(path, 'meta.json'), 'utf8')) as SnapshotRecord
  }

  // Without an await before the entry, so that two requests cannot both begin.
  function start(
    key: string,
    organisationId: string,
    snapshotId: string,
    order: SnapshotOrder,
  ): Promise<SnapshotRecord> {
    const sandbox = startedSandbox(organisationId, order)
    const { name } = sandbox
    const cancelled = new AbortController()
    const before = turns.get(name)
    const work = async () => {
      await before?.catch(() => undefined)
      const release = await slots.take(cancelled.signal)
      try {
        return await make(organisationId, snapshotId, order, sandbox, cancelled.signal)
      } finally {
        release()
      }
    }
    const done = work().finally(() => {
      taking.delete(key)
      if (turns.get(name) === done) turns.delete(name)
    })
    turns.set(name, done)
    taking.set(key, { sandbox: name, cancelled, done })
    return done
  }

  async function make(
    organisationId: string,
    snapshotId: string,
    { sessionId, generation, secrets, generatedFiles }: SnapshotOrder,
    sandbox: SnapshotSource,
    signal: AbortSignal,
  ): Promise<SnapshotRecord> {
    const target = draftOf(snapshotId)
    const bytes = await runTaker(
      options,
      {
        target,
        sandbox: sandbox.folder,
        uid: sandbox.uid,
        wanted: sandbox.wanted,
        secrets: [...secrets, ...sandbox.secrets],
        generatedFiles,
        limits: options.limits,
      },
      signal,
    )
    const source = { sessionId, generation }
    const record = { snapshotId, organisationId, bytes, createdAt: Date.now(), source }
    const content = join(target, contentFolder)
    writeFileSync(join(content, 'meta.json'), `${JSON.stringify(record)}\n`, { mode: 0o600 })
    mkdirSync(join(folder, organisationId), { recursive: true, mode: 0o700 })
    renameSync(content, join(folder, organisationId, snapshotId))
    removePrivateTree(target)
    return record
  }

  /** A sandbox that has ended counts, too: its files stay until it is stopped. If they are gone, planCopy refuses. */
  function startedSandbox(
    organisationId: string,
    { sessionId, generation }: SnapshotOrder,
  ): SnapshotSource {
    const sandbox = options.find(sessionId, generation)
    if (sandbox === undefined || sandbox.organisationId !== organisationId)
      throw new AppError('not_found', 'Cannot take a snapshot: there is no such sandbox')
    const { state } = sandbox.info()
    if (state === 'queued')
      throw new AppError('sandbox_unavailable', 'Cannot take a snapshot: the sandbox still starts')
    return sandbox
  }

  async function cancel(which: (each: Taking, key: string) => boolean, why: string): Promise<void> {
    const chosen = [...taking].filter(([key, each]) => which(each, key)).map(([, each]) => each)
    for (const { cancelled } of chosen)
      cancelled.abort(new AppError('wrong_state', `Cannot take the snapshot: ${why}`))
    await Promise.allSettled(chosen.map(({ done }) => done))
  }

  function draftOf(snapshotId: string): string {
    return join(drafts, `${snapshotId}.${randomBytes(6).toString('hex')}`)
  }
}

function ofSession(record: SnapshotRecord, { sessionId }: SnapshotOrder): SnapshotRecord {
  if (record.source.sessionId === sessionId) return record
  throw new AppError('wrong_state', `Snapshot "${record.snapshotId}" is of another session`)
}
