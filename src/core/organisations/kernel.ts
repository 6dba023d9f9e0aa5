import { idAlphabet } from '../../contract/ids.ts'
import type { AlarmOwner } from '../alarm.ts'
import { nextDeadline, releaseTaken } from '../deadlines.ts'
import { isMigrated, migrate } from '../migrate.ts'
import type { Sql } from '../ports.ts'
import type { OrganisationPorts } from './ports.ts'
import { organisationLadder } from './schema.ts'

/** Decide and commit, then arm: the one effect that every commit of an organisation has. */
export class OrganisationKernel implements AlarmOwner {
  readonly ports: OrganisationPorts
  readonly instance: string
  #created: boolean
  #armedAt: number | null | undefined

  constructor(ports: OrganisationPorts) {
    this.ports = ports
    this.instance = ports.crypto.random(20)
    this.#created = isMigrated(ports.sql)
    if (!this.#created) return
    migrate(ports.sql, organisationLadder)
    // What the instance before this one was at work on.
    if (releaseTaken(ports.sql, ports.now(), this.instance)) this.#arm()
  }

  get created(): boolean {
    return this.#created
  }

  commit<T>(work: (sql: Sql, now: number) => T): T {
    const { sql, now } = this.ports
    this.#createTables()
    const outcome = sql.transaction(() => work(sql, now()))
    this.#arm()
    return outcome
  }

  /** An organisation that nothing was ever written for has tables like any other, once it is asked. */
  read<T>(work: (sql: Sql, now: number) => T): T {
    this.#createTables()
    return work(this.ports.sql, this.ports.now())
  }

  /** The alarm has fired, so nothing is armed any more. */
  alarmFired(): void {
    this.#armedAt = undefined
  }

  /** From 0 up to 1. */
  readonly jitter = (): number => {
    const letters = this.ports.crypto.random(4).split('')
    const size = idAlphabet.length
    return letters.reduce((sum, letter) => (sum + idAlphabet.indexOf(letter)) / size, 0)
  }

  #createTables(): void {
    if (this.#created) return
    migrate(this.ports.sql, organisationLadder)
    this.#created = true
  }

  #arm(): void {
    const at = nextDeadline(this.ports.sql)
    if (at === this.#armedAt) return
    this.#armedAt = at
    this.ports.host.arm(at)
  }
}
