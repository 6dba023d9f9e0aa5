import type { Sql, SqlValue } from '../ports.ts'

/** Which tables were written. */
export interface Written {
  has(table: string): boolean
  isSubsetOf(tables: ReadonlySet<string>): boolean
}

/** For whoever does not know what was written before. */
export const everything: Written = { has: () => true, isSubsetOf: () => false }

type Tables = ReadonlySet<string>

/**
 * What a statement writes follows from its text and the schema alone, so it is asked once per text for all databases of
 * this process that have the same rungs of the same ladder.
 */
const knownByLadder = new WeakMap<object, Map<number, Map<string, Tables>>>()
/** Statements are written down in the code, so there are not many; those with lists of any length are not kept. */
const maxKnown = 1000
const nothing: Tables = new Set()

/**
 * Knows which tables each statement writes, so that nobody need look again at what has not changed. SQLite itself is
 * asked (`explain`): it also knows what triggers, upserts and other spellings write. No host has a hook for updates.
 */
export class Writes {
  readonly sql: Sql
  readonly #plain: Sql
  readonly #written: (tables: Tables) => void
  #known = new Map<string, Tables>()

  constructor(sql: Sql, written: (tables: Tables) => void) {
    this.#plain = sql
    this.#written = written
    this.sql = {
      run: (statement, ...values) => {
        this.#look(statement, values)
        sql.run(statement, ...values)
      },
      all: (statement, ...values) => {
        this.#look(statement, values)
        return sql.all(statement, ...values)
      },
      transaction: (work) => sql.transaction(work),
    }
  }

  /** The database has so many rungs of this ladder now. */
  climbed(ladder: object, rungs: number): void {
    const byRungs = knownByLadder.get(ladder) ?? new Map<number, Map<string, Tables>>()
    knownByLadder.set(ladder, byRungs)
    this.#known = byRungs.get(rungs) ?? new Map()
    byRungs.set(rungs, this.#known)
  }

  #look(statement: string, values: SqlValue[]): void {
    let tables = this.#known.get(statement)
    if (tables === undefined) {
      tables = tablesWritten(this.#plain, statement, values)
      if (this.#known.size < maxKnown) this.#known.set(statement, tables)
    }
    if (tables.size > 0) this.#written(tables)
  }
}

interface Opcode {
  opcode: string
  p1: number
  p2: number
}

function tablesWritten(sql: Sql, statement: string, values: SqlValue[]): Tables {
  // Half of all texts, and they write nothing in SQL.
  if (/^\s*select\b/i.test(statement)) return nothing
  const pages = sql.all<Opcode>(`explain ${statement}`, ...values).flatMap(pageWritten)
  if (pages.length === 0) return nothing
  const tables = tablesByPage(sql)
  return new Set(pages.map((page) => tables.get(page) ?? unknownPage(page, statement)))
}

/** Tables and their indexes are written through cursors, or emptied at once. */
function pageWritten({ opcode, p1, p2 }: Opcode): number[] {
  if (opcode === 'OpenWrite') return [p2]
  return opcode === 'Clear' ? [p1] : []
}

function tablesByPage(sql: Sql): Map<number, string> {
  const rows = sql.all<{ page: number; name: string }>(
    'select rootpage as page, tbl_name as name from sqlite_master where rootpage > 0',
  )
  return new Map([[1, 'sqlite_master'], ...rows.map(({ page, name }) => [page, name] as const)])
}

/** Opcodes are SQLite's own affair: if they ever mean something else, this must not go unnoticed. */
function unknownPage(page: number, statement: string): never {
  throw new Error(`Cannot tell what is written at page ${page} by: ${statement}`)
}
