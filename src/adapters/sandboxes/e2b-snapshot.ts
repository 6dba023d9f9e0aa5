import { AppError } from '../../contract/error.ts'
import type { SnapshotInfo, SnapshotInput } from '../../core/ports.ts'
import { type E2bAccess, type E2bApi, unavailable } from './e2b-api.ts'
import type { Envd } from './e2b-envd.ts'
import { scrubMetadata, sessionMetadata } from './e2b-labels.ts'
import { remoteScrubbedBytes, remoteScrubCommand, scrubMs } from './remote-scrub.ts'

interface E2bSnapshotsOptions {
  api: E2bApi
  envd: Envd
  /** The deployment's. */
  label: string
  /** The running sandbox of the input; refuses if there is none. */
  source: (input: SnapshotInput) => Promise<string>
}

/** The vendor ends a copy that was forgotten. */
const scratchSeconds = 600

/**
 * The vendor's snapshots have the memory in them: a start from one would be a second agent with the same token. So a
 * first one, the draft, is started without a network; its processes are killed, its files scrubbed and searched, the
 * machine started anew on its disk alone, and of that the snapshot is taken. It is found again by its name, which holds
 * the organisation; what else must be known of it is in its tag.
 */
export function createE2bSnapshots({ api, envd, label, source }: E2bSnapshotsOptions) {
  /** The last one of each sandbox. */
  const taking = new Map<string, SnapshotInput & { done: Promise<SnapshotInfo> }>()
  const aliasOf = (organisationId: string, snapshotId: string) =>
    `gantry-${label}-${organisationId}-${snapshotId}`
  const draftOf = ({ sessionId, generation }: { sessionId: string; generation: number }) =>
    `gantry-${label}-draft-${sessionId}-${generation}`

  return {
    /** One at a time of each sandbox: what clears away after one would end the other. */
    take: (input: SnapshotInput): Promise<SnapshotInfo> => {
      const draft = draftOf(input)
      const before = taking.get(draft)
      if (before !== undefined && isSame(before, input)) return before.done
      const done = Promise.resolve(before?.done.catch(() => undefined))
        .then(() => takeOnce(input, aliasOf(input.organisationId, input.snapshotId)))
        .finally(() => void (taking.get(draft)?.done === done && taking.delete(draft)))
      taking.set(draft, { ...input, done })
      return done
    },
    /** The template to start from; null: the organisation has no such snapshot. */
    find: (organisationId: string, snapshotId: string): Promise<string | null> =>
      api.findSnapshot(aliasOf(organisationId, snapshotId)),
    remove: async (organisationId: string, snapshotId: string): Promise<void> => {
      await api.deleteTemplate(aliasOf(organisationId, snapshotId))
    },
    clearAway,
  }

  async function takeOnce(input: SnapshotInput, alias: string): Promise<SnapshotInfo> {
    const known = await api.findSnapshot(alias)
    if (known !== null) return infoOf(known, input)
    const sandboxId = await source(input)
    await clearAway(input)
    try {
      return await make(input, alias, sandboxId)
    } finally {
      // What cannot be cleared away now is when the sandbox stops; the copy ends by itself.
      await clearAway(input).catch(() => undefined)
    }
  }

  async function make(
    input: SnapshotInput,
    alias: string,
    sandboxId: string,
  ): Promise<SnapshotInfo> {
    const { snapshotId, sessionId } = input
    const draft = await api.takeSnapshot(sandboxId, `${draftOf(input)}:${snapshotId}`)
    if (draft === null) throw gone()
    const scratch = await api.create({
      templateID: draft,
      timeout: scratchSeconds,
      metadata: scrubMetadata(label, input),
      allow_internet_access: false,
    })
    const bytes = await scrub(scratch, input)
    if (!(await api.pauseWithoutMemory(scratch.sandboxID))) throw gone()
    if ((await api.connect(scratch.sandboxID, scratchSeconds)) === null) throw gone()
    const taken = await api.takeSnapshot(scratch.sandboxID, `${alias}:${sessionId}.${bytes}`)
    if (taken === null) throw gone()
    return { snapshotId, bytes }
  }

  async function scrub(scratch: E2bAccess, input: SnapshotInput): Promise<number> {
    const command = { ...remoteScrubCommand(input), tag: 'gantry-scrub' }
    return remoteScrubbedBytes(await envd.run(scratch, command, scrubMs), input)
  }

  /** Of the session's sandbox: copies that still run, then the draft that they started from. */
  async function clearAway(of: { sessionId: string; generation: number }): Promise<void> {
    const copies = await api.list(sessionMetadata(label, of, 'scrub'))
    await Promise.all(copies.map(({ sandboxID }) => api.kill(sandboxID)))
    await api.deleteTemplate(draftOf(of))
  }
}

const isSame = (a: SnapshotInput, b: SnapshotInput) =>
  a.snapshotId === b.snapshotId && a.organisationId === b.organisationId

/** The tag is `<session>.<bytes>`. */
function infoOf(snapshot: string, { snapshotId, sessionId }: SnapshotInput): SnapshotInfo {
  const [session, bytes] = (snapshot.split(':')[1] ?? '').split('.')
  if (session !== sessionId)
    throw new AppError('wrong_state', `Snapshot "${snapshotId}" is of another session`)
  return { snapshotId, bytes: Number(bytes) }
}

const gone = () => unavailable('Cannot take the snapshot: the sandbox is gone')
