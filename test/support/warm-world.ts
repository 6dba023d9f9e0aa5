import { AppError } from '../../src/contract/error.ts'
import type { Firewall } from '../../src/contract/limits.ts'
import { SessionCreate } from '../../src/contract/session.ts'
import type { CreateSession } from '../../src/core/session/record/record.ts'
import { claimWarmSession, type WarmPorts } from '../../src/core/verbs/claim-warm-session.ts'
import { Fleet } from './fleet.ts'
import { orgId } from './organisation.ts'
import type { TestSession } from './session.ts'

export const configurationId = `cfg_${'1'.repeat(20)}`

/** A configuration with a warm pool, over real sessions and their real organisation. */
export class WarmWorld {
  readonly fleet: Fleet
  size = 2
  version = 'v1'
  /** As libSQL has them. */
  configuration: CreateSession['configuration'] = {
    id: configurationId,
    project: 'default',
    name: 'web',
    repository: null,
    defaultModel: null,
    trustProjectConfig: false,
    snapshotId: null,
    envFiles: [],
  }
  secrets: NonNullable<CreateSession['secrets']> = []
  isAway = false
  #minted = 0

  constructor(firewall: Partial<Firewall> = {}) {
    this.fleet = new Fleet(firewall)
    const { world } = this.fleet
    world.warm = {
      plan: async () => this.#plan(),
      versionOf: async () => this.version,
      mintSessionId: async () => `ses_warm${++this.#minted}`,
    }
    world.warmOwner = (id) => ({
      self: { create: (create) => this.fleet.create(id, {}, create) },
      warm: {
        drop: async (caller, reason) => {
          const session = this.fleet.sessions.get(id)
          if (!session) throw new AppError('not_found', 'No such session')
          return session.actor.api.warm.drop(caller, reason)
        },
      },
    })
  }

  get org() {
    return this.fleet.world.org
  }
  get pool() {
    return this.org.api.pools.view(configurationId)
  }

  #plan() {
    if (this.isAway) throw new AppError('storage_unavailable', 'away')
    if (!this.configuration) return null
    const { size, version } = this
    const create = {
      ...{ organisationId: orgId, keyId: 'warm-pool', policy: null },
      ...{ configuration: this.configuration, secrets: this.secrets },
      input: SessionCreate.parse({ configurationId, sandbox: 'local', idleTimeoutSeconds: null }),
    }
    const { project } = this.configuration
    return { configurationId, size, version, provider: 'local' as const, project, create }
  }

  /** Sessions that have not been erased. */
  sessions(): [string, TestSession][] {
    return [...this.fleet.sessions].filter(([, session]) => !session.erased)
  }

  async statusOf(id: string) {
    return (await this.fleet.sessions.get(id)?.actor.api.self.view(this.fleet.caller))?.status
  }

  /** The agents of all sandboxes that wait for one call. */
  async connect(): Promise<void> {
    // Seals are opened on other threads, so a session may be made a moment later.
    for (const [, session] of this.sessions()) await session.settle()
    await this.fleet.pass(1000)
    for (const [, session] of this.sessions()) {
      const view = await session.actor.api.self.view(this.fleet.caller).catch(() => null)
      if (view?.sandbox.state === 'booting')
        await session.connect({ generation: view.sandbox.generation })
    }
    await this.fleet.pass(1000)
  }

  /** As `fleet.pass`, with agents that call. */
  async live(ms: number): Promise<void> {
    for (const until = this.fleet.now + ms; this.fleet.now < until;) {
      await this.fleet.pass(30_000)
      await this.connect()
    }
  }

  async fill(): Promise<void> {
    await this.org.api.pools.watch(configurationId)
    await this.fleet.pass(1000)
    await this.connect()
  }

  createOf(creationId: string, input: Record<string, unknown> = {}): CreateSession {
    return {
      ...this.fleet.caller,
      sessionId: creationId,
      configuration: this.configuration ?? null,
      secrets: this.secrets,
      policy: null,
      input: SessionCreate.parse({ configurationId, sandbox: 'local', ...input }),
    }
  }

  /** As the API does. Null: it would be made cold. */
  claim(
    creationId: string,
    input: Record<string, unknown> = {},
    isRepeat = false,
    more: Partial<CreateSession> = {},
  ) {
    const deps = {
      organisation: () => this.org.api,
      session: (id: string) => this.fleet.sessions.get(id)?.actor.api,
      warm: this.fleet.world.warm,
      config: { defaultSandbox: 'local' },
    } as unknown as WarmPorts
    return claimWarmSession(deps, { ...this.createOf(creationId, input), ...more }, isRepeat)
  }
}
