import { Firewall } from '../../../src/contract/limits.ts'
import { modelRows } from '../../../src/contract/models.ts'
import type { Rung } from '../../../src/core/actor/ladder.ts'
import { answerRemote, remoteApi } from '../../../src/core/actor/remote.ts'
import { LedgerActor } from '../../../src/core/ledger/ledger.ts'
import { ledgerLadder } from '../../../src/core/ledger/rungs/ladder.ts'
import {
  OrganisationActor,
  type OrganisationApi,
} from '../../../src/core/organisation/organisation.ts'
import { organisationLadder } from '../../../src/core/organisation/rungs/ladder.ts'
import type { Ledger, Sql } from '../../../src/core/ports.ts'
import { sessionLadder } from '../../../src/core/session/rungs/ladder.ts'
import { SessionActor, type SessionApi } from '../../../src/core/session/session.ts'
import { linkClose } from '../../../src/contract/link.ts'
import type { Timer } from '../platform/clock.ts'
import { Database } from '../platform/database.ts'
import { Process } from '../platform/process.ts'
import type { ServerEnd } from '../platform/socket.ts'
import type { Outside } from './outside.ts'

/** The platform calls an alarm that has failed again. */
const alarmAgainMs = 2000

/** One object of the platform: a database that stays, an alarm, and an instance that is made when somebody comes. */
abstract class ActorHost<Actor> {
  readonly name: string
  readonly database: Database
  protected readonly outside: Outside
  #process: Process | null = null
  #actor: Actor | null = null
  #alarm: Timer | null = null
  armedAt: number | null = null
  /** Its last alarm has failed, and comes again later than what was due. */
  isLate = false

  constructor(name: string, ladder: readonly Rung[], outside: Outside) {
    this.name = name
    this.database = new Database(ladder)
    this.outside = outside
  }

  protected abstract create(process: Process, sql: Sql): Actor
  protected abstract runDue(actor: Actor): Promise<void>

  /** The process of the instance that is there now, or is made now. */
  readonly enter = (): Process => {
    if (this.#process?.isAlive && this.#actor) return this.#process
    const process = new Process(this.name)
    this.#process = process
    process.onDeath(() => {
      this.#actor = null
      this.outside.clock.forget(process)
    })
    const actor = process.run(() => this.create(process, this.database.for(process)))
    // It may have died over its first commit.
    if (process.isAlive) this.#actor = actor
    return process
  }

  /** To be asked for only in the process that `enter` has given, and while that is alive. */
  get actor(): Actor {
    return this.#actor as Actor
  }

  get isAwake(): boolean {
    return this.#process?.isAlive === true
  }

  crash(): void {
    this.#process?.die()
  }

  protected readonly armFor =
    (process: Process) =>
    (at: number | null): void => {
      if (process.isAlive || process.mayArm) this.arm(at)
    }

  arm(at: number | null): void {
    const { clock } = this.outside
    clock.cancel(this.#alarm)
    this.isLate = false
    this.armedAt = at
    this.#alarm = at === null ? null : clock.after(null, at - clock.now, () => this.#fire())
  }

  #fire(): void {
    this.#alarm = null
    this.armedAt = null
    const again = () => {
      if (this.armedAt !== null) return
      this.arm(this.outside.clock.now + alarmAgainMs)
      this.isLate = true
    }
    try {
      const process = this.enter()
      if (process.isAlive) process.run(() => void this.runDue(this.actor))
      if (!process.isAlive) again()
    } catch {
      again()
    }
  }
}

export class SessionHost extends ActorHost<SessionActor> {
  readonly id: string
  readonly organisationId: string
  /** The newest socket of an agent. */
  link: ServerEnd | null = null
  erased = false
  /** Of its database when the invariants last looked. */
  seen = { generation: 0, asks: 0, calls: 0 }

  constructor(id: string, organisationId: string, outside: Outside) {
    super(`session ${id.slice(-4)}`, sessionLadder, outside)
    this.id = id
    this.organisationId = organisationId
  }

  protected runDue(actor: SessionActor): Promise<void> {
    return actor.runDue()
  }

  get #open(): ServerEnd | null {
    return this.link?.isOpen ? this.link : null
  }

  protected create(process: Process, sql: Sql): SessionActor {
    const { outside } = this
    const { clock, crypto } = outside
    const whileAlive =
      <A extends unknown[]>(work: (...args: A) => void) =>
      (...args: A): void => {
        if (process.isAlive) work(...args)
      }
    return new SessionActor({
      sql,
      host: {
        arm: this.armFor(process),
        sendToAgent: (text) => {
          if (process.isAlive) this.#open?.send(text)
          return this.#open !== null
        },
        closeAgent: whileAlive((code, reason) => this.#open?.close(code, reason)),
        agentGreeted: whileAlive(() => {
          if (this.#open) this.#open.greeted = true
        }),
        agentConnected: () => this.#open?.greeted === true,
        agentHeardAt: () => this.#open?.heardAt ?? null,
        watched: () => false,
        publish: () => undefined,
        sleep: (ms) =>
          new Promise((resolve) => clock.after(process, ms, () => process.run(resolve))),
        defer: (work) => void work.catch(() => undefined),
        erase: async () => {
          if (!process.isAlive) return
          this.#open?.close(linkClose.fenced, 'The session was deleted')
          this.erased = true
          this.arm(null)
        },
      },
      now: () => clock.now,
      crypto,
      tokens: {
        mint: async ({ sessionId, organisationId, generation }) => ({
          token: `${sessionId}.${organisationId}.${generation}`,
          expiresAt: clock.now + 3_600_000,
        }),
      },
      webhooks: { refusal: () => null, post: async () => ({ status: 200 }) },
      db: () => outside.libsql.db,
      blobs: outside.blobs,
      ledger: () => outside.ledger,
      provider: async () => outside.provider,
      organisation: outside.organisation,
      tools: outside.tools,
      config: {
        publicUrl: 'http://gantry.test',
        defaultSandbox: 'local',
        defaultModel: 'scripted',
        models: modelRows([]),
        retentionMs: 30 * 86_400_000,
        enclosure: 'auto',
        unwalledApprovals: 'accept',
        privateHosts: [],
        evidence: { mode: 'full' as const },
        modelLimits: { modelCallsPerMinute: 600, concurrentModelCalls: 16 },
      },
      log: outside.log,
    })
  }

  /** As durable-objects/session.ts does it. */
  received(end: ServerEnd, text: string): void {
    this.#handle(async (process) => {
      const close = await this.actor.receive(end.generation, text)
      if (close && process.isAlive && end.isOpen) end.close(close.code, close.reason)
    })
  }

  linkClosed(end: ServerEnd): void {
    this.#handle(() => this.actor.linkClosed(end.generation))
  }

  /** The platform notes what an event's work throws, and goes on. */
  #handle(work: (process: Process) => void | Promise<void>): void {
    try {
      const process = this.enter()
      if (!process.isAlive) return
      const done = process.run(() => work(process))
      done?.catch((error: unknown) => this.outside.log('error', String(error), {}))
    } catch (error) {
      this.outside.log('error', String(error), {})
    }
  }

  async openLink(
    sandbox: { organisationId: string; generation: number },
    end: ServerEnd,
  ): Promise<void> {
    await this.actor.api.agent.authorise(sandbox)
    if (this.link?.isOpen) this.link.close(linkClose.superseded, 'Connected again')
    this.link = Object.assign(end, { generation: sandbox.generation, isOpen: true })
  }

  remote(): SessionApi {
    return remoteApi((room, method, args) =>
      this.outside.network.call(`session.${room}.${method}`, this.enter, () =>
        answerRemote(this.actor.api, room, method, args),
      ),
    ) as SessionApi
  }
}

export class OrganisationHost extends ActorHost<OrganisationActor> {
  readonly id: string

  constructor(id: string, outside: Outside) {
    super(`organisation ${id}`, organisationLadder, outside)
    this.id = id
  }

  protected runDue(actor: OrganisationActor): Promise<void> {
    return actor.runDue()
  }

  protected create(process: Process, sql: Sql): OrganisationActor {
    const { outside } = this
    return new OrganisationActor({
      id: this.id,
      sql,
      host: { arm: this.armFor(process) },
      now: () => outside.clock.now,
      crypto: outside.crypto,
      provider: async () => outside.provider,
      session: outside.session,
      warm: { plan: async () => null, versionOf: async () => '', mintSessionId: async () => '' },
      organisation: outside.organisation,
      ledger: () => outside.ledger,
      firewall: Firewall.parse({}),
      log: outside.log,
    })
  }

  remote(): OrganisationApi {
    return remoteApi((room, method, args) =>
      this.outside.network.call(`organisation.${room}.${method}`, this.enter, () =>
        answerRemote(this.actor.api, room, method, args),
      ),
    ) as OrganisationApi
  }
}

/** Its queue is memory only: a crash loses it, and whoever waits is told. */
export class LedgerHost extends ActorHost<LedgerActor> {
  constructor(outside: Outside) {
    super('ledger', ledgerLadder, outside)
  }

  protected async runDue(): Promise<void> {}

  protected create(_: Process, sql: Sql): LedgerActor {
    const { libsql, clock, log } = this.outside
    return new LedgerActor({ sql, db: () => libsql.db, now: () => clock.now, log })
  }

  remote(): Ledger {
    return {
      append: (input) =>
        this.outside.network.call('ledger.append', this.enter, () => this.actor.append(input)),
    }
  }
}
