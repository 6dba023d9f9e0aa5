import { type DiffReport, maxDiffBytes, type SessionDiff } from '../../../contract/session.ts'
import type { Sql } from '../../ports.ts'

/** With the generation, in one text: what an earlier release has stored has none. */
type StoredDiff = DiffReport & { generation?: number }

export function saveDiff(sql: Sql, now: number, generation: number, report: DiffReport): void {
  if (wouldHide(sql, generation, report)) return
  const commit = report.commit ?? earlierCommit(sql, report)
  const stored: StoredDiff = { ...report, generation, ...(commit !== undefined && { commit }) }
  const text = JSON.stringify(stored)
  const kept =
    text.length <= 2 * maxDiffBytes
      ? text
      : JSON.stringify({ ...stored, patch: '', truncated: true })
  sql.run('delete from diff')
  sql.run('insert into diff (at, report) values (?, ?)', now, kept)
}

/** A sandbox that goes on from the same base does not tell it again. */
function earlierCommit(sql: Sql, { base }: DiffReport): string | undefined {
  const stored = storedDiff(sql)
  return base !== undefined && stored?.base === base ? stored.commit : undefined
}

/** A sandbox that begins anew has changed nothing: that says nothing about the work of the one before. */
function wouldHide(sql: Sql, generation: number, { files, base }: DiffReport): boolean {
  const stored = storedDiff(sql)
  if (!stored || files.length > 0 || stored.files.length === 0) return false
  const isOfOther = (stored.generation ?? 1) < generation
  return isOfOther && (base === undefined || base !== stored.base)
}

function storedDiff(sql: Sql): (StoredDiff & { at: number }) | null {
  const row = sql.all<{ at: number; report: string }>('select at, report from diff')[0]
  return row ? { ...(JSON.parse(row.report) as StoredDiff), at: row.at } : null
}

export function loadDiff(sql: Sql): SessionDiff {
  const stored = storedDiff(sql)
  if (!stored) return { at: null, live: false, ...noDiff, generation: null }
  const { at, patch, files, truncated, leftOut = [], generation = null } = stored
  return { at, live: false, patch, files, truncated, leftOut, generation }
}

const noDiff = { patch: '', files: [], truncated: false, leftOut: [] }

/** The git tree that the session's work is counted from; null: nothing was reported yet. */
export const baseTree = (sql: Sql): string | null => storedDiff(sql)?.base ?? null

/** The commit that the session's workspace began at; null: nobody has told it, or the session has begun anew since. */
export function diffCommit(sql: Sql): string | null {
  const { base = null, commit } = storedDiff(sql) ?? {}
  const others = sql.all('select 1 from patches where base is not ? limit 1', base)
  return commit !== undefined && others.length === 0 ? commit : null
}
