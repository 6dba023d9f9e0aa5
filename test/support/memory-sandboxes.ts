import { AppError } from '../../src/contract/error.ts'
import type {
  ProviderCheck,
  SandboxInfo,
  SandboxProvider,
  SandboxSpec,
  SnapshotInfo,
  SnapshotInput,
} from '../../src/core/ports.ts'

export interface MemorySandbox {
  spec: SandboxSpec
  info: SandboxInfo
  endsAt: number
  /** By path, relative to the workspace. */
  files: Map<string, string>
}
interface MemorySnapshot {
  sessionId: string
  bytes: number
  files: Map<string, string>
}

/** Keeps books only. `orders` are what it was told, `fails` makes the next ones fail. */
export class MemorySandboxes implements SandboxProvider {
  readonly orders: string[] = []
  /** By session and generation, such as `ses_1.2`: all that has not been stopped, also what has ended by itself. */
  readonly running = new Map<string, MemorySandbox>()
  readonly snapshots = new Map<string, MemorySnapshot>()
  fails = 0
  /** So many of the next orders are carried out, but their answers do not arrive. */
  losesAnswers = 0
  /** What has ended can still be saved, as on the local provider. */
  keepsFiles = false
  /** Each order waits for it. */
  gate: Promise<void> = Promise.resolve()
  readonly #now: () => number

  constructor(now: () => number = () => 0) {
    this.#now = now
  }

  layout = () => ({
    home: '/h',
    workspace: '/w',
    configDir: '/c',
    envFile: '/e',
    hostname: '127.0.0.1',
    port: 0,
  })

  async create(spec: SandboxSpec): Promise<SandboxInfo> {
    return this.#order(`create ${spec.generation}`, () => {
      const known = this.running.get(nameOf(spec.sessionId, spec.generation))
      return (known ?? this.place(spec)).info
    })
  }
  async get(sessionId: string, generation: number): Promise<SandboxInfo | null> {
    return this.#order(`get ${generation}`, () => this.#find(sessionId, generation)?.info ?? null)
  }
  async list(organisationId: string): Promise<SandboxInfo[]> {
    return this.#order('list', () => {
      const ours = [...this.running.values()].filter(
        ({ spec }) => spec.organisationId === organisationId,
      )
      return ours.flatMap(({ spec }) => this.#find(spec.sessionId, spec.generation)?.info ?? [])
    })
  }
  async extend(sessionId: string, generation: number, seconds: number): Promise<void> {
    return this.#order(`extend ${generation}`, () => {
      const found = this.#find(sessionId, generation)
      if (found?.info.state !== 'running')
        throw new AppError('not_found', 'Cannot extend the sandbox: it is not running')
      found.endsAt = this.#now() + seconds * 1000
    })
  }
  async stop(sessionId: string, generation: number): Promise<void> {
    return this.#order(
      `stop ${generation}`,
      () => void this.running.delete(nameOf(sessionId, generation)),
    )
  }
  /** Which stand still. */
  readonly frozen = new Set<string>()
  async freeze(sessionId: string, generation: number): Promise<void> {
    return this.#order(
      `freeze ${generation}`,
      () => void this.frozen.add(nameOf(sessionId, generation)),
    )
  }
  async check(): Promise<ProviderCheck[]> {
    const name = 'memory'
    return this.#order('check', () => [
      { name, ok: true, message: 'It answers', hint: null },
    ]).catch(({ message }: Error) => [{ name, ok: false, message, hint: 'Set "fails" to 0' }])
  }
  async snapshot(input: SnapshotInput): Promise<SnapshotInfo> {
    return this.#order(`snapshot ${input.snapshotId}`, () => {
      const key = `${input.organisationId}/${input.snapshotId}`
      const known = this.snapshots.get(key) ?? this.#take(input)
      if (known.sessionId !== input.sessionId)
        throw new AppError('wrong_state', `Snapshot "${input.snapshotId}" is of another session`)
      this.snapshots.set(key, known)
      return { snapshotId: input.snapshotId, bytes: known.bytes }
    })
  }
  async deleteSnapshot(organisationId: string, snapshotId: string): Promise<void> {
    return this.#order(
      `delete ${snapshotId}`,
      () => void this.snapshots.delete(`${organisationId}/${snapshotId}`),
    )
  }

  /** As `create`, without an order. */
  place(spec: SandboxSpec): MemorySandbox {
    const { sessionId, generation, organisationId, snapshotId } = spec
    const source =
      snapshotId === null ? new Map() : this.snapshots.get(`${organisationId}/${snapshotId}`)?.files
    const reason =
      source === undefined ? `Cannot start from snapshot "${snapshotId}": not found` : null
    const startedAt = this.#now()
    const sandbox: MemorySandbox = {
      spec,
      info: {
        sessionId,
        generation,
        state: reason === null ? 'running' : 'exited',
        reason,
        startedAt,
      },
      endsAt: startedAt + spec.limits.lifetimeSeconds * 1000,
      files: new Map(source),
    }
    this.running.set(nameOf(sessionId, generation), sandbox)
    return sandbox
  }

  /** What it says of every sandbox of this generation from now on. */
  say(
    generation: number,
    state: SandboxInfo['state'],
    reason: string | null = null,
    fault: SandboxInfo['fault'] = null,
  ): void {
    for (const sandbox of this.running.values())
      if (sandbox.spec.generation === generation)
        sandbox.info = { ...sandbox.info, state, reason, fault: fault ?? null }
  }

  #find(sessionId: string, generation: number): MemorySandbox | undefined {
    const found = this.running.get(nameOf(sessionId, generation))
    if (found !== undefined && found.info.state !== 'exited' && found.endsAt <= this.#now())
      found.info = { ...found.info, state: 'exited', reason: 'Its lifetime is over' }
    return found
  }

  #take(input: SnapshotInput): MemorySnapshot {
    const { sessionId, generation, organisationId, secrets, generatedFiles = [] } = input
    const found = this.#find(sessionId, generation)
    const isThere = found?.info.state === 'running' || (found !== undefined && this.keepsFiles)
    if (!isThere || found.spec.organisationId !== organisationId)
      throw new AppError('not_found', 'Cannot take a snapshot: there is no such sandbox')
    const files = new Map([...found.files].filter(([path]) => !generatedFiles.includes(path)))
    for (const [path, content] of files) {
      const secret = secrets.find(({ value }) => content.includes(value))
      if (secret !== undefined)
        throw new AppError('unprocessable', `Secret "${secret.name}" is in "${path}"`)
    }
    return { sessionId, bytes: [...files.values()].join('').length, files }
  }

  async #order<T>(order: string, work: () => T): Promise<T> {
    this.orders.push(order)
    await this.gate
    if (this.fails > 0) {
      this.fails -= 1
      throw new AppError('sandbox_unavailable', 'The provider is away')
    }
    const answer = work()
    if (this.losesAnswers > 0) {
      this.losesAnswers -= 1
      throw new AppError('sandbox_unavailable', 'The answer of the provider did not arrive')
    }
    return answer
  }
}

export const nameOf = (sessionId: string, generation: number) => `${sessionId}.${generation}`
