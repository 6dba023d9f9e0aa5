import { Firewall } from '../../src/contract/limits.ts'
import type { ProviderName } from '../../src/contract/sandbox.ts'
import type {
  Halt,
  Reservation,
  SandboxClaim,
  SandboxEnd,
} from '../../src/core/organisation/record/api.ts'
import { OrganisationActor } from '../../src/core/organisation/organisation.ts'
import {
  deploymentId,
  type SessionOffers,
  type WarmSource,
} from '../../src/core/organisation/record/ports.ts'
import type { Sql } from '../../src/core/ports.ts'
import { MemoryLedger } from './memory-ledger.ts'
import { MemorySandboxes } from './memory-sandboxes.ts'
import { random } from './random.ts'
import { sandboxSpec } from './sandbox-spec.ts'
import { memorySql } from './sql.ts'

export const orgId = `org_${'1'.repeat(20)}`
export const hour = 3_600_000
export const day = 24 * hour

/** What a session offers to its pool. */
type WarmOffers = Pick<SessionOffers, 'self' | 'warm'>

interface Instance {
  actor: OrganisationActor
  dead: boolean
}

const never = new Promise<never>(() => {})

/** Organisations and the deployment's object over their ports, with a clock that only tests move. */
export class TestDeployment {
  /** Eight in the morning, UTC. */
  now = Date.UTC(2026, 10, 16, 8)
  readonly sandboxes = new MemorySandboxes(() => this.now)
  readonly logs: string[] = []
  /** What was asked of anybody outside, in order. */
  readonly calls: string[] = []
  /** Sessions that are asked to halt. Default: each stops its sandbox and says so. */
  halt: (sessionId: string, generation: number, order: Halt) => Promise<void> = async (
    id,
    generation,
  ) => {
    await this.sandboxes.stop(id, generation)
    await this.end(id, generation, 'stopped')
  }
  /** Sessions that are told that their provider does not have their sandbox. */
  check: (sessionId: string, generation: number) => Promise<void> = async () => {}
  /** What pools boot, and where. Default: no configuration wants one. */
  warm: WarmSource = {
    plan: async () => null,
    versionOf: async () => '',
    mintSessionId: async () => `ses_${this.#letters(30)}`,
  }
  warmOwner: (sessionId: string) => WarmOffers = () => ({
    self: { create: async () => {} },
    warm: { drop: async () => true },
  })
  /** Around each word with the outside: may throw, or `crash` somebody. */
  before: (call: string, id: string) => void | Promise<void> = () => {}
  after: (call: string, id: string) => void | Promise<void> = () => {}

  readonly #firewall: Firewall
  readonly #ledgers = new Map<string, MemoryLedger>()
  readonly #databases = new Map<string, Sql>()
  readonly #instances = new Map<string, Instance>()
  readonly #alarms = new Map<string, number | null>()
  readonly #random = random(7)
  readonly #onCrash: (() => void)[] = []

  constructor(firewall: Partial<Firewall> = {}) {
    this.#firewall = Firewall.parse(firewall)
  }

  get org(): OrganisationActor {
    return this.organisation(orgId)
  }
  get deployment(): OrganisationActor {
    return this.organisation(deploymentId)
  }

  organisation(id: string): OrganisationActor {
    const known = this.#instances.get(id)
    if (known) return known.actor
    const instance = { dead: false } as Instance
    this.#instances.set(id, instance)
    instance.actor = this.#create(id, instance)
    return instance.actor
  }

  /** What the instance was doing is lost; the next one begins with the database. */
  crash(id: string = orgId): void {
    const instance = this.#instances.get(id)
    if (instance) instance.dead = true
    this.#instances.delete(id)
    for (const tell of this.#onCrash.splice(0)) tell()
  }

  /** As a caller does whose request dies with the instance: it asks the next one. */
  async ask<T>(work: () => Promise<T>): Promise<T> {
    for (;;) {
      const crashed = new Promise<'crashed'>((resolve) =>
        this.#onCrash.push(() => resolve('crashed')),
      )
      const answer = await Promise.race([work().then((value) => ({ value })), crashed])
      if (answer !== 'crashed') return answer.value
    }
  }

  sql(id: string = orgId): Sql {
    const sql = this.#databases.get(id) ?? memorySql()
    this.#databases.set(id, sql)
    return sql
  }

  ledger(id: string = orgId): MemoryLedger {
    const ledger = this.#ledgers.get(id) ?? new MemoryLedger()
    this.#ledgers.set(id, ledger)
    return ledger
  }

  #create(id: string, instance: Instance): OrganisationActor {
    const call = <T>(name: string, work: () => Promise<T>) => this.#call(id, instance, name, work)
    const guard = <T extends object>(what: string, port: T): T =>
      new Proxy(port, {
        get: (target, name) =>
          // A promise that is resolved with this must not take it for another promise.
          name === 'then'
            ? undefined
            : async (...args: unknown[]): Promise<unknown> =>
                call(`${what}.${String(name)}`, async () =>
                  (target[name as keyof T] as (...args: unknown[]) => unknown).apply(target, args),
                ),
      })
    const alive = (sql: Sql): Sql => {
      const check = () => {
        if (instance.dead) throw new Error('This instance is dead')
      }
      return {
        run: (...args) => (check(), sql.run(...args)),
        all: (...args) => (check(), sql.all(...args)),
        transaction: (work) => (check(), sql.transaction(work)),
      }
    }
    return new OrganisationActor({
      id,
      sql: alive(this.sql(id)),
      host: { arm: (at) => void this.#alarms.set(id, at) },
      now: () => this.now,
      crypto: { random: (length) => this.#letters(length) },
      provider: async () => guard('provider', this.sandboxes),
      warm: guard('warm', this.warm),
      session: (sessionId) => ({
        self: {
          create: (create) =>
            call('session.create', () => this.warmOwner(sessionId).self.create(create)),
        },
        warm: {
          drop: (caller, reason) =>
            call('session.drop', () => this.warmOwner(sessionId).warm.drop(caller, reason)),
        },
        sandbox: {
          halt: ({ generation }, order) =>
            call('session.halt', () => this.halt(sessionId, generation, order)),
          check: ({ generation }) => call('session.check', () => this.check(sessionId, generation)),
        },
      }),
      organisation: (other) => ({
        deployment: guard('organisation', this.organisation(other).api.deployment),
      }),
      ledger: (owner) => guard('ledger', this.ledger(owner)),
      firewall: this.#firewall,
      log: (level, message, fields) =>
        void this.logs.push(`${level} ${message} ${JSON.stringify(fields)}`),
    })
  }

  async #call<T>(id: string, instance: Instance, name: string, work: () => Promise<T>): Promise<T> {
    this.calls.push(name)
    await this.before(name, id)
    if (instance.dead) return never
    const answer = await work()
    await this.after(name, id)
    return instance.dead ? never : answer
  }

  #letters(length: number): string {
    const alphabet = '0123456789abcdefghjkmnpqrstvwxyz'
    return Array.from({ length }, () => alphabet[Math.floor(this.#random() * 32)]).join('')
  }

  claim(sessionId: string, more: Partial<SandboxClaim> = {}): SandboxClaim {
    return { sessionId, generation: 1, project: 'default', provider: 'e2b', ...more }
  }

  reserve(sessionId: string, more: Partial<SandboxClaim> = {}): Promise<Reservation> {
    return this.org.api.sandboxes.reserve(this.claim(sessionId, more))
  }

  /** As a session does: a place first, then the provider. */
  async start(sessionId: string, more: Partial<SandboxClaim> = {}): Promise<Reservation> {
    const reservation = await this.reserve(sessionId, more)
    if (reservation.granted) await this.create(sessionId, reservation.lifetimeSeconds, more)
    return reservation
  }

  create(sessionId: string, lifetimeSeconds: number, more: Partial<SandboxClaim> = {}) {
    const { generation } = this.claim(sessionId, more)
    return this.sandboxes.create(
      sandboxSpec({
        sessionId,
        generation,
        organisationId: orgId,
        limits: { memoryMb: null, processes: null, lifetimeSeconds },
      }),
    )
  }

  connect(sessionId: string, generation = 1): Promise<void> {
    return this.org.api.sandboxes.connected(sessionId, generation)
  }

  end(sessionId: string, generation = 1, outcome: SandboxEnd['outcome'] = 'stopped') {
    return this.org.api.sandboxes.ended(sessionId, generation, { outcome, reason: `it ${outcome}` })
  }

  async usage(project: string | null = null) {
    return (await this.org.api.firewall.limits(project)).usage
  }

  async breaker(provider: ProviderName = 'e2b') {
    const { breakers } = await this.org.api.firewall.limits(null)
    return breakers.find((breaker) => breaker.provider === provider)
  }

  /** What libSQL has been sent so far, oldest first. */
  actions(): { action: string; sessionId: string | null; reason: string; actor: string }[] {
    return [...this.ledger().rows.values()]
      .filter(({ kind }) => kind === 'sandbox_action')
      .map(({ payload }) => JSON.parse(payload))
  }

  deadlines(id: string = orgId): string[] {
    return this.sql(id)
      .all<{ name: string }>('select name from deadlines order by name')
      .map(({ name }) => name)
  }

  /** Lets everything that is under way come to its next stop. */
  async settle(): Promise<void> {
    for (let quiet = 0; quiet < 4; quiet++) await new Promise((resolve) => setImmediate(resolve))
  }

  /** Moves the clock and runs every alarm that is due on the way, in order. */
  async pass(ms: number): Promise<void> {
    const until = this.now + ms
    for (let next = this.#nextAlarm(until); next; next = this.#nextAlarm(until)) {
      this.now = Math.max(this.now, next.at)
      this.#alarms.set(next.id, null)
      void this.organisation(next.id).runDue()
      await this.settle()
    }
    this.now = until
    await this.settle()
  }

  nextAt(): number | null {
    return this.#nextAlarm(Infinity)?.at ?? null
  }

  #nextAlarm(until: number): { id: string; at: number } | undefined {
    return [...this.#alarms]
      .flatMap(([id, at]) => (at !== null && at <= until ? [{ id, at }] : []))
      .toSorted((a, b) => a.at - b.at)[0]
  }
}
