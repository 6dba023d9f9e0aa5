import type { AlarmOwner } from './alarm.ts'
import type { CrashPoint, CrashPointName } from './crash-points.ts'
import { meetDeadlines, nextDeadline, releaseTakenDeadlines } from './deadlines.ts'
import { hasClimbedLadder, climbLadder, type Rung } from './ladder.ts'
import { hasUnsentOutbox, safetyNetMs } from './outbox.ts'
import type { Clock, Crypto, Log, LogFields, Sql } from '../ports.ts'
import type { Room } from './room.ts'
import { everything, Writes, type Written } from './writes.ts'

/** The year 2100. workerd takes no alarm after 2189; one that fires before anything is due looks, and is armed again. */
const latestAlarmAt = 4_102_444_800_000

interface KernelPorts {
  sql: Sql
  now: Clock
  crypto: Pick<Crypto, 'random'>
  log: Log
  host: { arm(at: number | null): void }
  crash?: CrashPoint | undefined
}

/**
 * What every actor is made of: one small database, one alarm, and rooms. A commit decides and writes in one transaction,
 * then acts: it arms the alarm for the earliest deadline and tells every room which tables were written. Effects are
 * read off the tables, so one that is lost in a crash is found again: by the next commit, the next alarm, or `recover`,
 * which the next instance calls. The actors' own kernels extend it; rooms call `commit` and nothing else writes.
 */
export class Kernel<Ports extends KernelPorts> implements AlarmOwner {
  readonly ports: Ports
  /** Names this instance: what is taken or pending under another name has lost its runner. */
  readonly instance: string

  readonly #ladder: readonly Rung[]
  readonly #plainSql: Sql
  readonly #writes: Writes
  #rooms: readonly Room[] = []
  #created: boolean
  #written = new Set<string>()
  /** Whether there may be another deadline that nobody has looked for yet. */
  #deadlinesWritten = true
  #armedAt: number | null | undefined

  constructor(ports: Ports, ladder: readonly Rung[]) {
    this.#ladder = ladder
    this.#plainSql = ports.sql
    this.#writes = new Writes(ports.sql, (tables) => this.#wrote(tables))
    this.ports = {
      ...ports,
      sql: this.#writes.sql,
      log: (level, message, fields) => ports.log(level, message, { ...this.about(), ...fields }),
    }
    this.instance = ports.crypto.random(20)
    this.#created = hasClimbedLadder(ports.sql)
    if (this.#created) this.#climb()
  }

  /** In every line of its log. Must not throw: what is logged may be that the database cannot be read. */
  protected about(): LogFields {
    return {}
  }

  /** Inside a transaction, after each statement that writes: what is kept in memory of these tables is not true any more. */
  protected forgetRows(_tables: Written): void {}

  /** After a commit, before the rooms hear of it. */
  protected beforeRooms(): void {}

  /** Once, when the actor is made: names without work are refused from here on. */
  enter(rooms: readonly Room[], deadlines: ReadonlySet<string>): void {
    this.#rooms = rooms
    meetDeadlines(this.ports.sql, deadlines)
  }

  /** What the instance before this one may have left: work that it had taken, rows unsent, commands unsent. */
  recover(): void {
    const { sql, now } = this.ports
    // Only if something may be due earlier than what the host has armed: arming is a write.
    if (releaseTakenDeadlines(sql, now(), this.instance) || hasUnsentOutbox(sql)) this.#arm()
    runAll(this.#rooms.map((room) => () => room.written?.(everything)))
  }

  get created(): boolean {
    return this.#created
  }

  /** The first write of all. Before it, an actor that nobody has made leaves no trace. */
  createTables(): void {
    if (this.#created) return
    this.#climb()
    this.#created = true
  }

  #climb(): void {
    this.#writes.climbed(this.#ladder, climbLadder(this.#plainSql, this.#ladder))
  }

  /** The database is gone: from here on this object was never created. */
  forget(): void {
    this.#created = false
  }

  commit<T>(work: (sql: Sql, now: number) => T): T {
    const now = this.ports.now()
    const outcome = this.#transact(() => work(this.ports.sql, now))
    this.#act()
    return outcome
  }

  #transact<T>(work: () => T): T {
    const wasCreated = this.#created
    try {
      return this.ports.sql.transaction(work)
    } catch (error) {
      // The rows are as they were before, whatever was read meanwhile.
      this.#created = wasCreated
      this.forgetRows(everything)
      throw error
    }
  }

  #wrote(tables: ReadonlySet<string>): void {
    for (const table of tables) this.#written.add(table)
    // A row of the outbox brings its own deadline. It matters only if nothing is armed before it.
    const isPromise = tables.has('outbox') && this.#isArmedWithin(safetyNetMs)
    if (tables.has('deadlines') && !isPromise) this.#deadlinesWritten = true
    this.forgetRows(tables)
  }

  #isArmedWithin(ms: number): boolean {
    return typeof this.#armedAt === 'number' && this.#armedAt <= this.ports.now() + ms
  }

  /** One room that fails keeps nothing from the others, and whatever it was to hear comes again with the next commit. */
  #act(): void {
    const written = this.#written
    this.#written = new Set()
    // First: whatever fails after it is found again by the alarm.
    this.#arm()
    try {
      runAll([
        () => this.beforeRooms(),
        ...this.#rooms.map((room) => () => room.written?.(written)),
      ])
    } catch (error) {
      for (const table of written) this.#written.add(table)
      throw error
    }
  }

  #arm(): void {
    if (!this.#deadlinesWritten) return
    const at = nextDeadline(this.ports.sql)
    if (at !== this.#armedAt) this.ports.host.arm(at === null ? null : Math.min(at, latestAlarmAt))
    this.#armedAt = at
    this.#deadlinesWritten = false
  }

  /** The next commit looks at the deadlines again. */
  armAt(at: number): void {
    this.ports.host.arm(at)
    this.#armedAt = at
    this.#deadlinesWritten = true
  }

  /** The alarm has fired, so nothing is armed any more. */
  alarmFired(): void {
    this.#armedAt = undefined
    this.#deadlinesWritten = true
  }

  crash(name: CrashPointName): Promise<void> | undefined {
    return this.ports.crash?.(name)
  }
}

/** All of them, whichever fails; then the first failure is thrown. */
function runAll(works: readonly (() => void)[]): void {
  const failures: unknown[] = []
  for (const work of works)
    try {
      work()
    } catch (error) {
      failures.push(error)
    }
  if (failures.length > 0) throw failures[0]
}
