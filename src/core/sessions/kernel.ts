import { AppError } from '../../contract/error.ts'
import type { DownMessage } from '../../contract/link.ts'
import type { CrashPointName } from '../crash-points.ts'
import { nextDeadline } from '../deadlines.ts'
import { isMigrated, migrate } from '../migrate.ts'
import { safetyNetMs } from '../outbox.ts'
import type { Sql } from '../ports.ts'
import type { DeltaRedactor, KnownSecret, Redactor } from '../redaction.ts'
import type { Answer } from './asks.ts'
import { openCommands } from './commands.ts'
import { lastEventSeq, listEvents } from './events.ts'
import type { SessionPorts } from './ports.ts'
import { loadSession, type SessionRecord } from './record.ts'
import { sessionLadder } from './schema.ts'
import { knownSecrets, openValues, redactorOf } from './secrets.ts'
import { type Watched, Writes } from './writes.ts'

/**
 * Decide and commit, then act. Effects are read off the tables after each commit (events to publish, commands to send,
 * the alarm to arm, rows to flush), so an effect lost in a crash is found again by the next commit or the next link.
 */
export class Kernel {
  readonly ports: SessionPorts
  /** Names this instance: a call that is pending under another name has lost its runner. */
  readonly instance: string
  /** Set by the outbox; called after each commit. */
  onCommit: () => void = () => {}

  #created: boolean
  #forgotten = false
  #published = 0
  #mayBeWatched = true
  #armedAt: number | null | undefined
  #sentCommands = new Set<string>()
  #answers: Answer[] = []
  #session: SessionRecord | undefined
  /** Whether there may be something to send, or another deadline, that nobody has looked for yet. */
  #commandsWritten = true
  #deadlinesWritten = true
  #turnsState = 0
  /** undefined: never opened. null: there is nothing to hide. */
  #redactor: Redactor | null | undefined
  /** How often the secrets have changed, and which of these states the redactor knows. */
  #secretsState = 0
  #openedState = -1
  #opening: Promise<void> | null = null

  constructor(ports: SessionPorts) {
    const { sql } = new Writes(ports.sql, (table) => this.#wrote(table))
    this.ports = { ...ports, sql }
    this.instance = ports.crypto.random(20)
    this.#created = isMigrated(ports.sql)
    if (this.#created) {
      migrate(ports.sql, sessionLadder)
      this.#published = lastEventSeq(ports.sql)
    }
  }

  get created(): boolean {
    return this.#created
  }

  /** The first write of all. Before it an unknown session leaves no trace. */
  createTables(): void {
    migrate(this.ports.sql, sessionLadder)
    this.#created = true
  }

  /** Kept until its row is written: every door asks for it. */
  session(): SessionRecord {
    if (!this.#created) throw new AppError('not_found', 'No such session')
    this.#session ??= loadSession(this.ports.sql)
    return this.#session
  }

  /** Another number as soon as turns or runs may have changed. */
  get turnsState(): number {
    return this.#turnsState
  }

  /** The database is gone: from here on this object was never created. */
  forget(): void {
    this.#created = false
    this.#forgotten = true
  }

  /**
   * Opens what must be kept out of every record. Doors that store what others send wait for it, all for the same
   * opening: they go on in the order in which they came. Undefined if there is nothing to wait for.
   */
  openSecrets(): Promise<void> | undefined {
    if (this.#openedState === this.#secretsState || !this.#created) return undefined
    this.#opening ??= this.#open().finally(() => (this.#opening = null))
    return this.#opening
  }

  /** Again if a value was given meanwhile: the redactor would not know it. */
  async #open(): Promise<void> {
    while (this.#openedState !== this.#secretsState) {
      const state = this.#secretsState
      this.#redactor = redactorOf(await this.knownSecrets())
      this.#openedState = state
    }
  }

  async knownSecrets(): Promise<KnownSecret[]> {
    const { sql, crypto } = this.ports
    const { repositoryToken } = this.session()
    const token = repositoryToken === null ? null : await crypto.unseal(repositoryToken)
    return knownSecrets(await openValues(sql, crypto), token)
  }

  /** Until they are opened the redactor before goes on: the sandbox does not have the new values yet. */
  secretsChanged(): void {
    this.#secretsState += 1
  }

  redact<T>(value: T): T {
    if (this.#redactor === undefined)
      throw new Error('Cannot store anything: the secrets are not open')
    return this.#redactor === null ? value : this.#redactor.redactJson(value)
  }

  /** For a text that comes in pieces; null if there is nothing to hide. */
  redactStream(): DeltaRedactor | null {
    return this.#redactor?.stream() ?? null
  }

  commit<T>(work: (sql: Sql, now: number) => T): T {
    // Whatever was still under way when the session was erased must not begin its database anew.
    if (this.#forgotten) throw new AppError('not_found', 'No such session')
    const now = this.ports.now()
    this.#answers = []
    const outcome = this.#transact(() => work(this.ports.sql, now))
    this.#act()
    return outcome
  }

  #wrote(table: Watched): void {
    if (table === 'session') this.#session = undefined
    if (table === 'turns' || table === 'runs') this.#turnsState += 1
    if (table === 'commands') this.#commandsWritten = true
    if (table === 'deadlines') this.#deadlinesWritten = true
    // A row of the outbox, which a call brings too, has its own deadline. It matters only if nothing is armed before it.
    const fillsOutbox = table === 'outbox' || table === 'calls'
    if (fillsOutbox && !(this.#armedAt && this.#armedAt <= this.ports.now() + safetyNetMs))
      this.#deadlinesWritten = true
  }

  #transact<T>(work: () => T): T {
    try {
      return this.ports.sql.transaction(work)
    } catch (error) {
      // The rows are as they were before, whatever was read meanwhile.
      this.#session = undefined
      this.#turnsState += 1
      throw error
    }
  }

  send(message: DownMessage): boolean {
    return this.ports.host.sendToAgent(JSON.stringify(message))
  }

  /** Inside a commit: sent after it, before any command, so that a tool is denied before its turn is aborted. */
  answer(answers: readonly Answer[]): void {
    this.#answers.push(...answers)
  }

  /** A new watcher reads what there is so far. */
  watchStarted(): void {
    this.#mayBeWatched = true
    this.#published = lastEventSeq(this.ports.sql)
  }

  /** A new link knows nothing of what was sent on the old one. */
  forgetSentCommands(): void {
    this.#sentCommands.clear()
    this.#commandsWritten = true
  }

  crash(name: CrashPointName): Promise<void> | undefined {
    return this.ports.crash?.(name)
  }

  #act(): void {
    for (const answer of this.#answers) this.send({ t: 'answer', ...answer } as DownMessage)
    this.#publish()
    this.#sendCommands()
    this.#arm()
    this.onCommit()
  }

  #publish(): void {
    const { sql, host } = this.ports
    // Asking the host costs as much as a statement, and nobody can have come meanwhile.
    if (!this.#mayBeWatched) return
    this.#mayBeWatched = host.watched()
    if (!this.#mayBeWatched) return
    for (;;) {
      const events = listEvents(sql, this.#published, 200)
      const last = events.at(-1)
      if (!last) return
      host.publish(events)
      this.#published = last.seq
    }
  }

  #sendCommands(): void {
    if (!this.#commandsWritten || !this.ports.host.agentConnected()) return
    for (const command of openCommands(this.ports.sql)) {
      if (this.#sentCommands.has(command.id)) continue
      const body = JSON.parse(command.body) as Record<string, unknown>
      if (!this.send({ t: 'command', id: command.id, kind: command.kind, body })) return
      this.#sentCommands.add(command.id)
    }
    this.#commandsWritten = false
  }

  #arm(): void {
    if (!this.#deadlinesWritten) return
    this.#deadlinesWritten = false
    const at = nextDeadline(this.ports.sql)
    if (at === this.#armedAt) return
    this.#armedAt = at
    this.ports.host.arm(at)
  }

  /** The alarm has fired, so nothing is armed any more. */
  alarmFired(): void {
    this.#armedAt = undefined
    this.#deadlinesWritten = true
  }
}
