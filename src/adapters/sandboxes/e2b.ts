import { AppError } from '../../contract/error.ts'
import type { SandboxInfo, SandboxProvider, SandboxSpec, SnapshotInput } from '../../core/ports.ts'
import {
  createE2bApi,
  E2bFailure,
  type E2bListed,
  type E2bTimeouts,
  unavailable,
} from './e2b-api.ts'
import { gitFaultOfEnd } from './git-fault.ts'
import { checkE2b } from './e2b-check.ts'
import { createEnvd } from './e2b-envd.ts'
import { e2bLabelInfo, newMetadata, organisationMetadata, sessionMetadata } from './e2b-labels.ts'
import { createE2bSnapshots } from './e2b-snapshot.ts'
import { launchCodes, remoteLaunchInput, launchScript, statusScript } from './remote-launch.ts'
import { remoteLayout } from './remote-layout.ts'

export interface E2bOptions {
  apiKey: string
  apiUrl?: string | undefined
  /** One address for the daemons of all sandboxes; without it each has its own. */
  sandboxUrl?: string | undefined
  /** Name or id; see sandbox-agent/e2b. */
  template: string
  /** Of everything that this deployment makes at E2B: lower-case letters, digits and dashes. */
  deploymentLabel: string
  /** How long requests may take: those that only ask, and those that start or copy machines. */
  timeouts?: E2bTimeouts | undefined
}

const statusMs = 10_000
/** So long has a machine until an agent was launched in it: one that nobody goes on with ends by itself. */
const unlaunchedSeconds = 10 * 60

/** Sandboxes at E2B. Nothing is remembered here: the vendor's own labels say what there is. */
export function createE2bSandboxes(options: E2bOptions): SandboxProvider {
  const { apiKey, apiUrl = 'https://api.e2b.app', template, deploymentLabel: label } = options
  if (!/^[a-z0-9-]{1,40}$/.test(label)) throw new Error(`Cannot use the label "${label}" at E2B`)
  const api = createE2bApi({
    apiKey,
    apiUrl: apiUrl.replace(/\/$/, ''),
    timeouts: options.timeouts,
  })
  const envd = createEnvd({ sandboxUrl: options.sandboxUrl?.replace(/\/$/, '') ?? null })
  const snapshots = createE2bSnapshots({ api, envd, label, source })
  const creating = new Map<string, Promise<SandboxInfo>>()

  return {
    layout: () => remoteLayout,
    create,
    get: async (sessionId, generation) => {
      const found = await findOne(sessionId, generation)
      return found && look(found)
    },
    list: async (organisationId) => {
      const found = await api.list(organisationMetadata(label, organisationId))
      return found.map(e2bLabelInfo)
    },
    extend: async (sessionId, generation, seconds) => {
      const found = await findOne(sessionId, generation)
      if (found === null || !(await api.extend(found.sandboxID, seconds)))
        throw new AppError('not_found', 'Cannot extend the sandbox: there is none')
    },
    stop: async (sessionId, generation) => {
      const found = await api.list(sessionMetadata(label, { sessionId, generation }, 'session'))
      await Promise.all(found.map(({ sandboxID }) => api.kill(sandboxID)))
      await snapshots.clearAway({ sessionId, generation })
    },
    check: () => checkE2b(api, template),
    snapshot: (input) => snapshots.take(input),
    deleteSnapshot: (organisationId, snapshotId) => snapshots.remove(organisationId, snapshotId),
  }

  /** Whoever asks meanwhile gets the same answer: two orders at once would be two machines for a moment. */
  function create(spec: SandboxSpec): Promise<SandboxInfo> {
    const name = `${spec.sessionId}.${spec.generation}`
    const joined = creating.get(name)
    if (joined !== undefined) return joined
    const work = createOnce(spec).finally(() => creating.delete(name))
    creating.set(name, work)
    return work
  }

  async function createOnce(spec: SandboxSpec): Promise<SandboxInfo> {
    const input = remoteLaunchInput(spec, label)
    const there = await findOne(spec.sessionId, spec.generation)
    const found = there ?? (await createNew(spec))
    if (found === null) return gone(spec)
    const launched = await launch(found, input)
    if (launched === null || launched.state === 'exited') return launched ?? gone(spec)
    const isThere = await api.extend(found.sandboxID, spec.limits.lifetimeSeconds)
    return isThere ? launched : gone(spec)
  }

  /** null: it has ended meanwhile. */
  async function launch(found: E2bListed, input: string): Promise<SandboxInfo | null> {
    if (found.state === 'paused') return look(found) // whatever calls its daemon could wake it
    const access = await api.access(found.sandboxID)
    if (access === null) return null
    const script = ['/bin/bash', '-c', launchScript] as const
    const command = { args: script, input, tag: 'gantry-agent' }
    const launched = await whileThere(found, async () => {
      const ended = await envd.start(access, command)
      if (ended === null || ended === launchCodes.alreadyLaunched) return ended === null
      throw unavailable(`Cannot start the agent at E2B: its launch ended with code ${ended}`)
    })
    if (launched === 'gone') return null
    return launched ? { ...e2bLabelInfo(found), state: 'queued' } : look(found)
  }

  /** There is no idempotency key: what was created though its answer was lost is found by the label. */
  async function createNew(spec: SandboxSpec): Promise<E2bListed | null> {
    const { snapshotId, organisationId, sessionId, generation } = spec
    const image = snapshotId === null ? spec.image : null
    const order = {
      templateID: snapshotId === null ? (image ?? template) : await startOf(spec, snapshotId),
      timeout: Math.min(spec.limits.lifetimeSeconds, unlaunchedSeconds),
      metadata: newMetadata(label, { organisationId, sessionId, generation }),
      allow_internet_access: true,
    }
    await api.create(order).catch((error: unknown) => {
      throw image === null ? error : ofImage(image, error)
    })
    // Another host may have created one, too: all keep the same.
    return findOne(sessionId, generation)
  }

  async function startOf({ organisationId }: SandboxSpec, snapshotId: string): Promise<string> {
    const found = await snapshots.find(organisationId, snapshotId)
    if (found !== null) return found
    throw new AppError('not_found', `Cannot start from snapshot "${snapshotId}": not found`)
  }

  /** The oldest of those with the label stays; others were created because an answer was lost. */
  async function findOne(sessionId: string, generation: number): Promise<E2bListed | null> {
    const found = await api.list(sessionMetadata(label, { sessionId, generation }, 'session'))
    const [oldest, ...others] = found
    await Promise.allSettled(others.map(({ sandboxID }) => api.kill(sandboxID)))
    return oldest ?? null
  }

  /** null: it has gone since it was listed, or nobody has launched anything in it: then the next create does. */
  async function look(found: E2bListed): Promise<SandboxInfo | null> {
    const info = e2bLabelInfo(found)
    if (info.state === 'exited') return info
    const access = await api.access(found.sandboxID)
    if (access === null) return null
    const script = ['/bin/bash', '-c', statusScript] as const
    const command = { args: script, input: '', tag: 'gantry-status' }
    const now = await whileThere(found, async () => {
      const { stdout } = await envd.run(access, command, statusMs)
      return stateIn(stdout)
    })
    return now === 'gone' || now === 'unlaunched' ? null : { ...info, ...now }
  }

  /** Its daemon cannot be told from a gone one by its silence: the vendor is asked. */
  async function whileThere<T>(found: E2bListed, work: () => Promise<T>): Promise<T | 'gone'> {
    try {
      return await work()
    } catch (error) {
      if ((await api.access(found.sandboxID)) === null) return 'gone'
      throw error
    }
  }

  async function source(input: SnapshotInput): Promise<string> {
    const { sessionId, generation, organisationId } = input
    const found = await findOne(sessionId, generation)
    const info = found?.metadata?.['organisation'] === organisationId ? await look(found) : null
    if (found === null || info === null)
      throw new AppError('not_found', 'Cannot take a snapshot: there is no such sandbox')
    if (info.state === 'queued')
      throw unavailable('Cannot take a snapshot: the sandbox still starts')
    if (info.state === 'exited')
      throw new AppError('wrong_state', 'Cannot take a snapshot: the sandbox has ended')
    return found.sandboxID
  }
}

/** The template that a session names itself is its user's to correct; the deployment's own is not. */
function ofImage(image: string, error: unknown): unknown {
  if (!(error instanceof E2bFailure) || ![400, 404].includes(error.status)) return error
  const hint = 'Check image: it is the name or id of a template that the E2B key may use'
  return new AppError('unprocessable', `E2B cannot boot "${image}": ${error.words}. ${hint}`)
}

/** What the status script says. */
function stateIn(stdout: string): Pick<SandboxInfo, 'state' | 'reason' | 'fault'> | 'unlaunched' {
  const [state, ...words] = stdout.split('\n')
  if (state === 'none') return 'unlaunched'
  if (state === 'running') return { state, reason: null }
  if (state === 'preparing') return { state: 'queued', reason: null }
  if (state === 'exited')
    return { state, ...gitFaultOfEnd(`The agent ended:\n${words.join('\n')}`.trim()) }
  throw unavailable('The sandbox at E2B does not answer as expected')
}

const gone = ({ sessionId, generation }: SandboxSpec): SandboxInfo => ({
  sessionId,
  generation,
  state: 'exited',
  reason: 'The sandbox was ended while it started',
  startedAt: Date.now(),
})
