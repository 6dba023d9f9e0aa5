import { AppError } from '../../contract/error.ts'
import type { Sql } from '../ports.ts'

/**
 * One step of a small database's schema. A rung that has landed is never edited. A plain list is additive: the release
 * before it can use the database all the same (new tables, columns with defaults, triggers that it need not know). A rung
 * that the release before could not live with is marked: that release then refuses the database instead of spoiling it.
 */
export type Rung = readonly string[] | { breaks: readonly string[] }

/** The rungs of a module that exports each as `rung` and its number, in the order of the numbers. */
export function ladderOf(rungs: Record<`rung${number}`, Rung>): readonly Rung[] {
  return Object.entries(rungs)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([, rung]) => rung)
}

/** Where a database stands. */
interface Standing {
  /** How many rungs it has. */
  applied: number
  /** So many rungs must a release know to use it. */
  needs: number
}

/** True once `climbLadder` has run here. Asking writes nothing. */
export function hasClimbedLadder(sql: Sql): boolean {
  return sql.all(`select 1 from sqlite_master where name = '_schema'`).length > 0
}

/**
 * Climbs the ladder from where this database stands; at the top, or above it, it only reads. Answers with the number of
 * rungs that the database has. Refuses, before anything is written, what a later release has made unusable for this one.
 */
export function climbLadder(sql: Sql, ladder: readonly Rung[]): number {
  const recorded = recordedStanding(sql)
  const { applied, needs } = recorded ?? { applied: oldVersion(sql), needs: 0 }
  if (needs > ladder.length) throw tooNew(needs, ladder.length)
  if (recorded && applied >= ladder.length) return applied
  sql.transaction(() => {
    for (const rung of ladder.slice(applied)) for (const text of textsOf(rung)) sql.run(text)
    record(sql, {
      applied: Math.max(applied, ladder.length),
      needs: Math.max(needs, needsOf(ladder)),
    })
  })
  return Math.max(applied, ladder.length)
}

const textsOf = (rung: Rung): readonly string[] => ('breaks' in rung ? rung.breaks : rung)

const needsOf = (ladder: readonly Rung[]): number =>
  ladder.findLastIndex((rung) => 'breaks' in rung) + 1

function tooNew(needs: number, known: number): AppError {
  return new AppError(
    'newer_release',
    `A newer release has changed this database so that this release cannot use it: it needs rung ${needs} of the ladder, ` +
      `and this release knows ${known}. Nothing was changed. Deploy the newer release again`,
  )
}

/**
 * What was really applied. Release 0.1.0 does not know this table; it writes the version in `_schema` down to its own when
 * it opens a database that has more rungs, and leaves the rungs.
 */
function recordedStanding(sql: Sql): Standing | undefined {
  const isKept = sql.all(`select 1 from sqlite_master where name = '_ladder'`).length > 0
  return isKept ? sql.all<Standing>('select applied, needs from _ladder')[0] : undefined
}

function oldVersion(sql: Sql): number {
  if (!hasClimbedLadder(sql)) return 0
  return sql.all<{ version: number }>('select version from _schema')[0]?.version ?? 0
}

function record(sql: Sql, { applied, needs }: Standing): void {
  sql.run('create table if not exists _schema (version integer not null)')
  sql.run('delete from _schema')
  sql.run('insert into _schema (version) values (?)', applied)
  sql.run('create table if not exists _ladder (applied integer not null, needs integer not null)')
  sql.run('delete from _ladder')
  sql.run('insert into _ladder (applied, needs) values (?, ?)', applied, needs)
}
