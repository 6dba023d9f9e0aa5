import { createHash } from 'node:crypto'
import { createCrypto } from '../../src/adapters/web-crypto.ts'
import { type DownMessage, type UpMessage } from '../../src/contract/link.ts'
import { defaultModelId, modelRows } from '../../src/contract/models.ts'
import { SessionCreate } from '../../src/contract/session.ts'
import type { GatewayTool } from '../../src/core/gateway/tools.ts'
import type { Ledger, LedgerAppend, SandboxInfo, SandboxProvider } from '../../src/core/ports.ts'
import { SessionActor } from '../../src/core/sessions/session.ts'
import { secretKey } from './keys.ts'
import { memorySql } from './sql.ts'
import { testTools } from './tools.ts'

/** libSQL's side in memory: keeps rows by number, may be away, may lose its last writes. */
export class MemoryLedger implements Ledger {
  readonly rows = new Map<number, LedgerAppend['rows'][number]>()
  away = false
  appends = 0

  async append(input: LedgerAppend): Promise<number> {
    this.appends += 1
    if (this.away) throw Object.assign(new Error('away'), { code: 'storage_unavailable' })
    const stored = Math.max(0, ...this.rows.keys())
    if (stored < input.after) return stored
    for (const row of input.rows) this.rows.set(row.seq, row)
    return input.rows.at(-1)?.seq ?? input.after
  }

  lose(count: number): void {
    for (const seq of [...this.rows.keys()].sort((a, b) => b - a).slice(0, count))
      this.rows.delete(seq)
  }
}

/** Keeps books only. `orders` are what it was told, `fails` makes the next ones fail. */
export class MemorySandboxes implements SandboxProvider {
  readonly orders: string[] = []
  readonly running = new Map<number, SandboxInfo>()
  fails = 0
  /** Each order waits for it. */
  gate: Promise<void> = Promise.resolve()

  layout = () => ({
    home: '/h',
    workspace: '/w',
    configDir: '/c',
    envFile: '/e',
    hostname: '127.0.0.1',
    port: 0,
  })

  async create({
    sessionId,
    generation,
  }: {
    sessionId: string
    generation: number
  }): Promise<SandboxInfo> {
    await this.#order(`create ${generation}`)
    const known = this.running.get(generation)
    const info: SandboxInfo = known ?? { sessionId, generation, state: 'running', reason: null }
    this.running.set(generation, info)
    return info
  }
  async get(_: string, generation: number): Promise<SandboxInfo | null> {
    await this.#order(`get ${generation}`)
    return this.running.get(generation) ?? null
  }
  async stop(_: string, generation: number): Promise<void> {
    await this.#order(`stop ${generation}`)
    this.running.delete(generation)
  }
  async snapshot({ snapshotId }: { snapshotId: string }) {
    await this.#order(`snapshot ${snapshotId}`)
    return { snapshotId, bytes: 0 }
  }
  async deleteSnapshot(_: string, snapshotId: string): Promise<void> {
    await this.#order(`delete ${snapshotId}`)
  }
  async #order(order: string): Promise<void> {
    this.orders.push(order)
    await this.gate
    if (this.fails-- > 0) throw new Error('The provider is away')
  }
}

export const testSessionId = `ses_${'1'.repeat(30)}`
export const testCaller = {
  organisationId: `org_${'1'.repeat(20)}`,
  keyId: `key_${'1'.repeat(20)}`,
}

/** One whole session over its ports, with a clock that only tests move and a socket that only tests hold. */
export class TestSession {
  readonly sql = memorySql()
  readonly ledger = new MemoryLedger()
  readonly sandboxes = new MemorySandboxes()
  readonly logs: string[] = []
  /** What the agent has been sent on its present link. */
  sent: DownMessage[] = []
  linked = false
  greeted = false
  now = 1_000_000
  armedAt: number | null = null
  erased = false
  actor: SessionActor
  readonly #deferred = new Set<Promise<void>>()
  readonly #sleepers: { at: number; wake: () => void }[] = []
  /** Without the thread pool of WebCrypto, so that everything settles within a known number of turns. */
  readonly crypto = {
    ...createCrypto([secretKey('s')]),
    sha256: async (data: string | Uint8Array) => createHash('sha256').update(data).digest('hex'),
  }
  readonly #tools: readonly GatewayTool[]

  constructor(tools: readonly GatewayTool[] = testTools) {
    this.#tools = tools
    this.actor = this.#start()
  }

  #start(): SessionActor {
    return new SessionActor({
      sql: this.sql,
      host: {
        arm: (at) => void (this.armedAt = at),
        sendToAgent: (text) => {
          if (this.linked) this.sent.push(JSON.parse(text) as DownMessage)
          return this.linked
        },
        closeAgent: () => void (this.linked = this.greeted = false),
        agentGreeted: () => void (this.greeted = true),
        agentConnected: () => this.linked && this.greeted,
        watched: () => false,
        publish: () => {},
        // The outbox gathers for a moment; everything longer waits for the clock.
        sleep: (ms) => (ms <= 1000 ? Promise.resolve() : this.#sleep(ms)),
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
      tokens: {
        mint: async ({ generation }) => ({
          token: `token of ${generation}`,
          expiresAt: this.now + 3_600_000,
        }),
      },
      db: () => {
        throw new Error('No libSQL here')
      },
      blobs: () => {
        throw new Error('No blobs here')
      },
      ledger: () => this.ledger,
      provider: (name) => (name === 'local' ? this.sandboxes : null),
      tools: this.#tools,
      config: {
        publicUrl: 'http://gantry.test',
        defaultSandbox: 'none',
        defaultModel: defaultModelId,
        models: modelRows([]),
        retentionMs: 86_400_000,
      },
      log: (level, message, fields) =>
        void this.logs.push(`${level} ${message} ${JSON.stringify(fields)}`),
    })
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((wake) => this.#sleepers.push({ at: this.now + ms, wake }))
  }

  create(input: Record<string, unknown> = {}) {
    return this.actor.create({
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
    for (let quiet = 0; quiet < 3; quiet++) {
      while (this.#deferred.size > 0) await Promise.race(this.#deferred)
      await new Promise((resolve) => setImmediate(resolve))
    }
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
    return this.actor.callTool(
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
