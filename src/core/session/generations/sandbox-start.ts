import { clearDeadline, ensureDeadline, setDeadline } from '../../actor/deadlines.ts'
import type { Sql } from '../../ports.ts'
import { loadSession } from '../record/record.ts'
import { restorableSnapshots } from '../snapshots/rows.ts'
import { beginGeneration } from './generations.ts'
import { changeSandboxState } from './sandbox-states.ts'

/** From the request to ready, waiting for a place not counted. */
export const startMs = 600_000
/** So often at most the provider is asked to create something in one start. */
export const maxCreates = 5
/** So many sandboxes are tried, or one from each thing that it can start from if those are more. */
const leastTries = 3
/** Kept of each start, for people to read. */
const maxFailures = 5

export interface Failure {
  at: number
  generation: number
  reason: string
}
/** One row: the start that is under way, or was the last. A start may take several sandboxes. */
export interface Start {
  /** Creations sent, whatever became of them. */
  creates: number
  /** Sandboxes that did not become ready. */
  boots: number
  /** Sandboxes that were ready for a moment only. */
  losses: number
  failures: Failure[]
  /** There is no place for it before this time. */
  retryAt: number | null
}

export function loadStart(sql: Sql): Start {
  const row = sql.all<Omit<Start, 'failures'> & { failures: string }>(
    'select creates, boots, losses, failures, retry_at as retryAt from sandbox_start',
  )[0]
  if (!row) throw new Error('The row of the start is gone')
  return { ...row, failures: JSON.parse(row.failures) as Failure[] }
}

/** The state says that one is requested. */
export function startSandbox(sql: Sql, now: number): void {
  const { generation, snapshotId } = loadSession(sql)
  beginStart(sql, now)
  beginGeneration(sql, generation, chooseStartSource(sql, snapshotId))
  requestCreation(sql, now)
}

/** A session that sleeps is given a sandbox again, from where it was. */
export function startWaking(sql: Sql, now: number): void {
  if (!changeSandboxState(sql, now, 'wake', null)) return
  startSandbox(sql, now)
}

/** The one before is out of the way. */
export function requestNextStart(sql: Sql, now: number): void {
  clearDeadline(sql, 'sandbox.next')
  if (changeSandboxState(sql, now, 'next', null)) requestCreation(sql, now)
}

function requestCreation(sql: Sql, now: number): void {
  setDeadline(sql, `sandbox.create:${loadSession(sql).generation}`, now)
}

/** Whatever failed before does not count any more. */
export function beginStart(sql: Sql, now: number): void {
  sql.run(
    `update sandbox_start set creates = 0, boots = 0, losses = 0, failures = '[]', retry_at = null`,
  )
  setDeadline(sql, 'sandbox.start', now + startMs)
}

/** The next try of the same start. */
export function retryStart(sql: Sql, now: number): void {
  ensureDeadline(sql, 'sandbox.start', now + startMs)
}

/** Waiting does not count. */
export function putOffStart(sql: Sql, until: number): void {
  setDeadline(sql, 'sandbox.start', until + startMs)
}

export function countStartTry(sql: Sql): void {
  sql.run('update sandbox_start set creates = creates + 1, retry_at = null')
}

export function setStartRetryAt(sql: Sql, at: number | null): void {
  sql.run('update sandbox_start set retry_at = ?', at)
}

/** The same reason again is told once, with its newest time. */
export function addStartFailure(
  sql: Sql,
  failure: Failure,
  what: 'create' | 'boot' | 'loss',
): void {
  const isSame = ({ generation, reason }: Failure) =>
    generation === failure.generation && reason === failure.reason
  const before = loadStart(sql).failures.filter((other) => !isSame(other))
  const failures = [...before, failure].slice(-maxFailures)
  sql.run(
    'update sandbox_start set failures = ?, boots = boots + ?, losses = losses + ?',
    JSON.stringify(failures),
    what === 'boot' ? 1 : 0,
    what === 'loss' ? 1 : 0,
  )
}

/** Newest first; the last one is always the repository itself. */
function sources(sql: Sql, baseId: string | null): (string | null)[] {
  const own = restorableSnapshots(sql)
  return [...own, ...(baseId === null || own.includes(baseId) ? [] : [baseId]), null]
}

/**
 * What did not become ready is not tried again: the next older thing is. A sandbox that was ready and died gets a second
 * chance first, since falling back loses work.
 */
export function chooseStartSource(sql: Sql, baseId: string | null): string | null {
  const { boots, losses } = loadStart(sql)
  return sources(sql, baseId)[boots + Math.max(0, losses - 1)] ?? null
}

export function hasStartTriesLeft(sql: Sql, baseId: string | null): boolean {
  const { boots, losses, creates } = loadStart(sql)
  const tries = Math.max(leastTries, sources(sql, baseId).length)
  return boots + losses < tries && creates < maxCreates
}
