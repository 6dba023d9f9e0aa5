import type { Sql, SqlValue } from '../../../src/core/ports.ts'
import { climbLadder, type Rung } from '../../../src/core/actor/ladder.ts'
import { memorySql } from '../../support/sql.ts'
import type { Process } from './process.ts'

const full = () => Object.assign(new Error('database or disk is full'), { code: 'SQLITE_FULL' })
const isWrite = (statement: string) => !/^\s*(select|with)\b/i.test(statement)

class Undone extends Error {}

/** By ladder: databases that have it and are empty. Climbing it anew would take longer than most stories. */
const idle = new Map<readonly Rung[], Sql[]>()

function takeIdle(ladder: readonly Rung[]): Sql {
  const known = idle.get(ladder)?.pop()
  if (known) return known
  const sql = memorySql()
  climbLadder(sql, ladder)
  sql.run('savepoint empty')
  return sql
}

/** The small database of one actor. It outlives the actor's instances, and can end one of them at any commit. */
export class Database {
  readonly sql: Sql
  readonly #ladder: readonly Rung[]
  /** Whether its actor has climbed the ladder: until then there is nothing in it, as far as anybody can see. */
  isMade = false
  isFull = false
  /** So many commits from now the instance dies: before that one, or right after it. */
  crashIn: { commits: number; after: boolean } | null = null
  /** Whether anything was written since somebody has looked. */
  isWritten = false

  constructor(ladder: readonly Rung[]) {
    this.#ladder = ladder
    this.sql = takeIdle(ladder)
  }

  /** Its world is over: the next one may have it. */
  giveBack(): void {
    this.sql.run('rollback to empty')
    idle.set(this.#ladder, [...(idle.get(this.#ladder) ?? []), this.sql])
  }

  /** As one instance sees it. */
  for(owner: Process): Sql {
    let depth = 0
    const commit = <T>(work: () => T): T => {
      if (!owner.isAlive) return this.#undone(work)
      if (this.#dies(false)) {
        owner.die()
        return this.#undone(work)
      }
      const outcome = this.#transact(work)
      this.isWritten = true
      if (this.#dies(true)) {
        owner.mayArm = true
        owner.die()
      }
      return outcome
    }
    const within = <T>(work: () => T): T => {
      if (depth > 0) return this.sql.transaction(work)
      depth += 1
      try {
        return commit(work)
      } finally {
        depth -= 1
      }
    }
    const write = <T>(work: () => T): T => {
      if (this.isFull && owner.isAlive) throw full()
      return depth > 0 ? work() : within(work)
    }
    return {
      run: (statement, ...values) =>
        write(() => (this.isMade ? this.sql.run(statement, ...values) : this.#climb(statement))),
      all: <T extends object>(statement: string, ...values: SqlValue[]) => {
        if (!this.isMade) return []
        const read = () => this.sql.all<T>(statement, ...values)
        return isWrite(statement) ? write(read) : read()
      },
      transaction: within,
    }
  }

  /** The last that a climb writes. */
  #climb(statement: string): void {
    if (statement.startsWith('insert into _ladder')) this.isMade = true
  }

  #transact<T>(work: () => T): T {
    const wasMade = this.isMade
    try {
      return this.sql.transaction(work)
    } catch (error) {
      this.isMade = wasMade
      throw error
    }
  }

  #dies(after: boolean): boolean {
    const { crashIn } = this
    if (!crashIn || crashIn.after !== after) return false
    crashIn.commits -= 1
    if (crashIn.commits > 0) return false
    this.crashIn = null
    return true
  }

  /** What the dead write is gone; they go on for the moment and see what they expect. */
  #undone<T>(work: () => T): T {
    let outcome: { value: T } | undefined
    try {
      this.#transact(() => {
        outcome = { value: work() }
        throw new Undone()
      })
    } catch (error) {
      if (!(error instanceof Undone)) throw error
    }
    return (outcome as { value: T }).value
  }
}
