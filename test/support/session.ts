import { createWebCrypto } from '../../src/adapters/web-crypto.ts'
import type { SessionEvent } from '../../src/contract/events.ts'
import { type DownMessage, type UpMessage } from '../../src/contract/link.ts'
import { defaultModelId, modelRows } from '../../src/contract/models.ts'
import { SessionCreate } from '../../src/contract/session.ts'
import type { ProofMode } from '../../src/contract/evidence.ts'
import type { CrashPoint, CrashPointName } from '../../src/core/actor/crash-points.ts'
import type { GatewayTool } from '../../src/core/session/calls/tools/tool.ts'
import type { OrganisationApi } from '../../src/core/organisation/organisation.ts'
import type { Blobs, Crypto, SandboxProvider } from '../../src/core/ports.ts'
import { SessionActor } from '../../src/core/session/session.ts'
import { secretKey } from './keys.ts'
import { MemoryOrganisation } from './memory-organisation.ts'
import { MemoryLedger } from './memory-ledger.ts'
import { MemorySandboxes } from './memory-sandboxes.ts'
import { memorySql } from './sql.ts'
import { testTools } from './tools.ts'

export const testSessionId = `ses_${'1'.repeat(30)}`
export const testCaller = {
  organisationId: `org_${'1'.repeat(20)}`,
  keyId: `key_${'1'.repeat(20)}`,
  memberId: 'mbr_tester',
  owner: 'tester',
}

/** WebCrypto works on threads, for which no number of turns is long enough: `pending` says whether it does. */
function watchedCrypto(pending: Set<Promise<unknown>>): Crypto {
  const watch = async <T>(work: Promise<T>): Promise<T> => {
    const done = work.catch(() => undefined).finally(() => pending.delete(done))
    pending.add(done)
    return work
  }
  const real = createWebCrypto([secretKey('s')])
  return {
    ...real,
    // Ids are longer. What is as short as this is the jitter of a delay: without it tests know every time.
    random: (length) => (length <= 2 ? '0'.repeat(length) : real.random(length)),
    sha256: (data) => watch(real.sha256(data)),
    seal: (text) => watch(real.seal(text)),
    unseal: (sealed) => watch(real.unseal(sealed)),
  }
}

/** One whole session over its ports, with a clock that only tests move and a socket that only tests hold. */
export class TestSession {
  readonly sql = memorySql()
  readonly ledger = new MemoryLedger()
  readonly organisation = new MemoryOrganisation()
  /** Snapshots from which configurations start. */
  readonly bases = new Set<string>()
  readonly sandboxes = new MemorySandboxes(() => this.now)
  /** Where the session goes on only when this is done, by the names of the crash points. */
  readonly holds = new Map<CrashPointName, Promise<void>>()
  readonly modelLimits = { modelCallsPerMinute: 600, concurrentModelCalls: 16 }
  /** Of stored abilities. */
  abilityFiles: () => Promise<{ path: string; content: string }[]> = async () => []
  /** Tests may put something in between. */
  provider: SandboxProvider = this.sandboxes
  /** Tests that upload something say where. */
  blobs: () => Blobs = () => {
    throw new Error('No blobs here')
  }
  readonly logs: string[] = []
  /** What the agent has been sent on its present link. */
  sent: DownMessage[] = []
  linked = false
  /** Who watches is told of every event; null: nobody does. */
  watch: ((events: SessionEvent[]) => void) | null = null
  /** Its machine is gone or stands still, and its socket does not know. */
  silentSince: number | null = null
  greeted = false
  /** Tokens are minted when it is done. */
  minting: Promise<void> = Promise.resolve()
  now = 1_000_000
  armedAt: number | null = null
  /** The host's storage is away altogether. */
  cannotArm = false
  erased = false
  actor: SessionActor
  readonly #deferred = new Set<Promise<void>>()
  readonly #sleepers: { at: number; wake: () => void }[] = []
  readonly #sealing = new Set<Promise<unknown>>()
  readonly crypto = watchedCrypto(this.#sealing)
  readonly #tools: readonly GatewayTool[]
  /** As on Workers: until whatever has arrived is delivered. Counts from the next start. */
  gather: (() => Promise<void>) | undefined = undefined

  /** Rows that libSQL has not, though it has newer ones. Of those that name a call the newest is enough. */
  missingRows(): number[] {
    const rows = this.sql.all<{ seq: number; kind: string; payload: string }>(
      'select seq, kind, payload from outbox order by seq',
    )
    const newest = new Map(rows.map(({ kind, payload, seq }) => [`${kind} ${payload}`, seq]))
    const last = Math.max(0, ...this.ledger.rows.keys())
    return rows
      .filter(({ seq }) => seq <= last && !this.ledger.rows.has(seq))
      .filter(({ seq, kind, payload }) => kind !== 'call' || newest.get(`call ${payload}`) === seq)
      .map(({ seq }) => seq)
  }

  constructor(tools: readonly GatewayTool[] = testTools) {
    this.#tools = tools
    this.actor = this.#start()
  }

  /** Of the deployment; counts from the next start. */
  enclosure: 'auto' | 'off' = 'auto'
  proofMode: ProofMode = 'full'

  #start(): SessionActor {
    return new SessionActor({
      sql: this.sql,
      host: {
        arm: (at) => {
          if (this.cannotArm) throw new Error('cannot arm')
          this.armedAt = at
        },
        sendToAgent: (text) => {
          if (this.linked) this.sent.push(JSON.parse(text) as DownMessage)
          return this.linked
        },
        closeAgent: () => void (this.linked = this.greeted = false),
        agentGreeted: () => void (this.greeted = true),
        agentConnected: () => this.linked && this.greeted,
        agentHeardAt: () => (this.linked ? (this.silentSince ?? this.now) : null),
        watched: () => this.watch !== null,
        publish: (events) => this.watch?.(events),
        // The outbox gathers for a moment; everything longer waits for the clock.
        sleep: (ms) => (ms <= 1000 ? Promise.resolve() : this.#sleep(ms)),
        ...(this.gather && { gather: this.gather }),
        defer: (work) => {
          this.#deferred.add(work)
          void work.finally(() => this.#deferred.delete(work))
        },
        erase: async () => {
          const tables = this.sql.all<{ name: string }>(
            `select name from sqlite_master where type = 'table'`,
          )
          for (const { name } of tables) this.sql.run(`drop table ${name}`)
          this.erased = true
          this.armedAt = null
        },
      },
      now: () => this.now,
      crypto: this.crypto,
      webhooks: {
        refusal: () => null,
        post: () => {
          throw new Error('No webhooks here')
        },
      },
      tokens: {
        mint: async ({ generation }) => {
          await this.minting
          return { token: `token of ${generation}`, expiresAt: this.now + 3_600_000 }
        },
      },
      db: () => ({
        // Questions that a session has to it: the head of a timeline, and whether a snapshot is the base of a configuration.
        all: async <T extends object>(statement: string, ...values: unknown[]) => {
          if (statement.includes('from run_events'))
            return this.ledger.heads(String(values[0])) as T[]
          if (statement.includes('from ability_files')) return (await this.abilityFiles()) as T[]
          if (!statement.includes('base_snapshot_id'))
            throw new Error(`No libSQL here: ${statement}`)
          return (this.bases.has(String(values.at(-1))) ? [{}] : []) as T[]
        },
        batch: async () => {
          throw new Error('No libSQL here')
        },
      }),
      blobs: () => this.blobs(),
      ledger: () => this.ledger,
      provider: async (name) => (name === 'local' ? this.provider : null),
      organisation: () => this.organisation.api as unknown as OrganisationApi,
      tools: this.#tools,
      config: {
        publicUrl: 'http://gantry.test',
        defaultSandbox: 'none',
        defaultModel: defaultModelId,
        models: modelRows([]),
        enclosure: this.enclosure,
        unwalledApprovals: 'accept',
        privateHosts: [],
        evidence: { mode: this.proofMode },
        retentionMs: 86_400_000,
        modelLimits: this.modelLimits,
      },
      // Without one nothing is awaited there, as in production.
      crash: ((name) => this.holds.get(name)) as CrashPoint,
      log: (level, message, fields) =>
        void this.logs.push(`${level} ${message} ${JSON.stringify(fields)}`),
    })
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((wake) => this.#sleepers.push({ at: this.now + ms, wake }))
  }

  create(input: Record<string, unknown> = {}) {
    return this.actor.api.self.create({
      sessionId: testSessionId,
      ...testCaller,
      input: SessionCreate.parse(input),
    })
  }

  /** A new instance over the same database, as after an eviction or a crash. What it was doing is lost. */
  restart(): void {
    this.linked = this.greeted = false
    this.#deferred.clear()
    this.#sleepers.length = 0
    this.actor = this.#start()
  }

  /** Lets everything that is under way come to its next stop. */
  async settle(): Promise<void> {
    for (let quietTurns = 0; quietTurns < 3;) {
      const busy = [...this.#deferred, ...this.#sealing]
      quietTurns = busy.length === 0 ? quietTurns + 1 : 0
      await (busy.length === 0 ? new Promise(setImmediate) : Promise.race(busy))
    }
  }

  /** The machine was suspended: the clock is later at once, and whatever was due on the way is late. */
  jump(ms: number): Promise<void> {
    this.now += ms
    return this.pass(0)
  }

  /** Moves the clock and runs the alarm as often as it is due on the way. */
  async pass(ms: number): Promise<void> {
    const until = this.now + ms
    while (this.armedAt !== null && this.armedAt <= until) {
      this.now = Math.max(this.now, this.armedAt)
      this.armedAt = null
      await this.#runAlarm()
    }
    this.now = until
    for (const sleeper of this.#sleepers.splice(0)) {
      if (sleeper.at <= this.now) sleeper.wake()
      else this.#sleepers.push(sleeper)
    }
    await this.settle()
  }

  async #runAlarm(): Promise<void> {
    const work = this.actor.runDue()
    await Promise.race([work, this.settle()])
    await this.settle()
  }

  async connect({ ready = true, generation = 1 } = {}): Promise<void> {
    this.linked = true
    this.greeted = false
    this.sent = []
    await this.receive({ t: 'hello', protocols: [1], agent: 'test', boot: 'b', ready }, generation)
  }

  async cut(generation = 1): Promise<void> {
    this.linked = this.greeted = false
    this.actor.linkClosed(generation)
    await this.settle()
  }

  async receive(message: UpMessage, generation = 1) {
    const end = await this.actor.receive(generation, JSON.stringify(message))
    if (end) this.linked = this.greeted = false
    await this.settle()
    return end
  }

  call(tool: string, toolCallId: string, args: Record<string, unknown> = {}, generation = 1) {
    return this.actor.api.calls.call(
      { organisationId: testCaller.organisationId, generation },
      { tool, toolCallId, args },
    )
  }

  commands(): Extract<DownMessage, { t: 'command' }>[] {
    return this.sent.filter((message) => message.t === 'command')
  }

  deadlines(): Record<string, number> {
    const rows = this.sql.all<{ name: string; at: number }>(
      'select name, at from deadlines order by name',
    )
    return Object.fromEntries(rows.map(({ name, at }) => [name, at]))
  }
}
