import { AppError } from '../../../contract/error.ts'
import type { Answer } from '../../../contract/ask.ts'
import type { DownMessage } from '../../../contract/link.ts'
import { Kernel } from '../../actor/kernel.ts'
import type { Written } from '../../actor/writes.ts'
import type { LogFields, Sql } from '../../ports.ts'
import {
  HidingStream,
  hideSecretLike,
  type KnownSecret,
  type Redactor,
} from '../../redaction/redaction.ts'
import { sessionLadder } from '../rungs/ladder.ts'
import type { SessionPorts } from './ports.ts'
import { loadSession, type SessionRecord } from './record.ts'
import { knownSecrets, openValues, secretInputs, secretRedactor } from './secrets.ts'

/**
 * The kernel of a session. Beside what every kernel does it keeps the session's own row at hand, knows the secrets that
 * must be kept out of every record, and holds the answers to gate questions that a commit has decided: they leave before
 * any command, so that a tool is denied before its turn is aborted. Every room of the session is made with it.
 */
export class SessionKernel extends Kernel<SessionPorts> {
  /** Set by the outbox: why its rows do not get through. */
  outboxWaits: string | null = null

  #forgotten = false
  #answers: Answer[] = []
  #session: SessionRecord | undefined
  #turnsState = 0
  #executionsState = 0
  /** undefined: never opened. null: there is nothing to hide. */
  #redactor: Redactor | null | undefined
  /** How often the secrets have changed, and which of these states the redactor knows. */
  #secretsState = 0
  #openedState = -1
  #opening: Promise<void> | null = null

  constructor(ports: SessionPorts) {
    super(ports, sessionLadder)
  }

  protected override about(): LogFields {
    if (!this.created) return {}
    try {
      const { id: sessionId, organisationId, keyId } = this.session()
      return { sessionId, organisationId, keyId }
    } catch {
      return {}
    }
  }

  protected override forgetRows(tables: Written): void {
    if (tables.has('session')) this.#session = undefined
    if (tables.has('turns') || tables.has('runs')) this.#turnsState += 1
    if (tables.has('executions') || tables.has('execution_steps')) this.#executionsState += 1
  }

  /** Kept until its row is written: every guard asks for it. */
  session(): SessionRecord {
    if (!this.created) throw new AppError('not_found', 'No such session')
    this.#session ??= loadSession(this.ports.sql)
    return this.#session
  }

  /** Another number as soon as turns or runs may have changed. */
  get turnsState(): number {
    return this.#turnsState
  }

  /** Another number as soon as executions or their steps may have changed, or a commit that changed them has failed. */
  get executionsState(): number {
    return this.#executionsState
  }

  override forget(): void {
    super.forget()
    this.#forgotten = true
  }

  /**
   * Opens what must be kept out of every record. Whoever stores what others send waits for it, all for the same
   * opening: all go on in the order in which they came. Undefined if there is nothing to wait for.
   */
  openSecrets(): Promise<void> | undefined {
    if (this.#openedState === this.#secretsState || !this.created) return undefined
    this.#opening ??= this.#open().finally(() => (this.#opening = null))
    return this.#opening
  }

  /** Again if a value was given meanwhile: the redactor would not know it. */
  async #open(): Promise<void> {
    while (this.#openedState !== this.#secretsState) {
      const state = this.#secretsState
      this.#redactor = secretRedactor(await this.knownSecrets())
      this.#openedState = state
    }
  }

  async knownSecrets(): Promise<KnownSecret[]> {
    const { sql, crypto } = this.ports
    const { repositoryToken } = this.session()
    const token = repositoryToken === null ? null : await crypto.unseal(repositoryToken)
    return [
      ...knownSecrets(await openValues(sql, crypto), token),
      ...(await secretInputs(sql, crypto)),
    ]
  }

  /** Another number as soon as there are others. */
  get secretsState(): number {
    return this.#secretsState
  }

  /** Whether the redactor knows all of them. */
  get areSecretsOpen(): boolean {
    return this.#openedState === this.#secretsState
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

  /** Also without what looks like a key. Only for what is kept and shown: nothing is decided or carried out by it. */
  hide<T>(value: T): T {
    return hideSecretLike(this.redact(value))
  }

  /** For a text that comes in pieces. */
  hideStream(): HidingStream {
    return new HidingStream(this.#redactor?.stream() ?? null)
  }

  override commit<T>(work: (sql: Sql, now: number) => T): T {
    // Whatever was still under way when the session was erased must not begin its database anew.
    if (this.#forgotten) throw new AppError('not_found', 'No such session')
    this.#answers = []
    return super.commit(work)
  }

  /** False if no agent is connected. */
  send(message: DownMessage): boolean {
    return this.ports.host.sendToAgent(JSON.stringify(message))
  }

  /** Inside a commit: sent after it, before any command. */
  answer(answers: readonly Answer[]): void {
    this.#answers.push(...answers)
  }

  protected override beforeRooms(): void {
    for (const answer of this.#answers) this.send({ t: 'answer', ...answer } as DownMessage)
  }
}
