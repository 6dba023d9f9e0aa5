import type { BackfillOutcome, Collect } from '../../../contract/change-ledger.ts'
import type { Diagnostic, ProofStatistics } from '../../../contract/change.ts'
import { evidenceLimits, type ProofMode } from '../../../contract/evidence.ts'
import { AppError } from '../../../contract/error.ts'
import type { Sql } from '../../ports.ts'
import { addCommand } from '../commands/rows.ts'
import type { DeliveredTurn } from './delivery.ts'

// One row for each collect: asked by a command, and stored once its bundle has come and was decided on.

export interface CollectRow {
  n: number
  id: string
  turn_id: string
  run_id: string
  generation: number
  mode: ProofMode
  after_message: string | null
  until_message: string | null
  reached: string | null
  state: 'asked' | 'stored' | 'failed'
  outcome: BackfillOutcome | null
  reason: string | null
  candidates: number
  imported: number
  statistics: string | null
  diagnostics: string
  created_at: number
  ended_at: number | null
}

const kept = `n, id, turn_id, run_id, generation, mode, after_message, until_message, reached, candidates, imported, statistics,
  created_at, ended_at`

/** As they are: one whose command was dropped with its sandbox is not asked for any more. */
const collects = `(select ${kept}, diagnostics,
    case when is_lost then 'failed' else state end as state,
    case when is_lost then 'transient-error' else outcome end as outcome,
    case when is_lost then 'The sandbox is gone' else reason end as reason
  from (select *, state = 'asked' and id not in (select id from commands where state = 'open') as is_lost
    from collects))`

/** The row and its command, in one commit. Off reads no snapshot. */
export function askCollect(
  sql: Sql,
  now: number,
  collect: {
    id: string
    turn: DeliveredTurn
    mode: ProofMode
    after: string | null
    until?: string
  },
): void {
  const { id, turn, mode, after, until } = collect
  sql.run(
    `insert into collects (id, turn_id, run_id, generation, mode, after_message, until_message, state, created_at)
     values (?, ?, ?, ?, ?, ?, ?, 'asked', ?)`,
    id,
    turn.id,
    turn.runId,
    turn.generation,
    mode,
    after,
    until ?? null,
    now,
  )
  addCommand(sql, now, {
    id,
    generation: turn.generation,
    kind: 'evidence',
    body: {
      collectId: id,
      turnId: turn.id,
      messageIds: turn.messageIds,
      after,
      ...(until !== undefined && { until }),
      maxWindows: mode === 'off' ? 0 : evidenceLimits.readsPerCollect,
    },
  })
}

export function findCollect(sql: Sql, id: string): CollectRow | undefined {
  return sql.all<CollectRow>(`select * from ${collects} where id = ?`, id)[0]
}

export function mustCollect(sql: Sql, id: string): CollectRow {
  const row = findCollect(sql, id)
  if (!row) throw new AppError('not_found', `No such collect: "${id}"`)
  return row
}

const collectsIn = (sql: Sql, turnId: string, mode: ProofMode): CollectRow[] =>
  sql.all<CollectRow>(
    `select * from ${collects} where turn_id = ? and mode = ? order by n`,
    turnId,
    mode,
  )

/** Whether a turn was read to its end in this mode, or is being read. */
export function isCollected(sql: Sql, turnId: string, mode: ProofMode): boolean {
  const rows = collectsIn(sql, turnId, mode)
  const last = rows.at(-1)
  return rows.some(isAsked) || (last?.state === 'stored' && isLast(last))
}

const isAsked = ({ state }: CollectRow) => state === 'asked'
const isLast = ({ until_message, reached }: CollectRow) =>
  until_message === null && reached === null

export const isBeingCollected = (sql: Sql, turnId: string, mode: ProofMode): boolean =>
  collectsIn(sql, turnId, mode).some(isAsked)

/** The last message that was read in this mode: no window is read twice in one mode. */
export const reachedBy = (sql: Sql, turnId: string, mode: ProofMode): string | null =>
  collectsIn(sql, turnId, mode).findLast(({ state, reached }) => state === 'stored' && reached)
    ?.reached ?? null

/** The last message of the newest collect while the turn ran, however that one went: it is not tried at every step. */
export const lastUntil = (sql: Sql, turnId: string, mode: ProofMode): string | null =>
  collectsIn(sql, turnId, mode).findLast(({ until_message }) => until_message !== null)
    ?.until_message ?? null

/** Inside the commit in which its result has come. */
export function noteCollectReached(sql: Sql, id: string, message: string | null): void {
  sql.run('update collects set reached = ? where id = ?', message, id)
}

interface CollectEnd {
  outcome: BackfillOutcome
  candidates: number
  imported: number
  statistics: ProofStatistics | null
  diagnostics: readonly Diagnostic[]
}

const maxDiagnostics = 1000

export function storeCollect(sql: Sql, now: number, id: string, end: CollectEnd): void {
  sql.run(
    `update collects set state = 'stored', outcome = ?, candidates = ?, imported = ?, statistics = ?,
       diagnostics = ?, ended_at = ? where id = ?`,
    end.outcome,
    end.candidates,
    end.imported,
    JSON.stringify(end.statistics),
    JSON.stringify(end.diagnostics.slice(0, maxDiagnostics)),
    now,
    id,
  )
}

/** Only one that is still asked for. */
export function failCollect(
  sql: Sql,
  now: number,
  id: string,
  why: { outcome: BackfillOutcome; reason: string },
): void {
  sql.run(
    `update collects set state = 'failed', outcome = ?, reason = ?, ended_at = ? where id = ? and state = 'asked'`,
    why.outcome,
    why.reason.slice(0, 1000),
    now,
    id,
  )
}

/** Of all collects in one answer: whoever works in the sandbox could fill each of them. */
const maxDiagnosticsLength = 1024 * 1024

/** The newest 100, oldest first. Diagnostics of the newest, as many collects as fit whole; of the others there are none. */
export function collectsOf(sql: Sql, runId: string): Collect[] {
  return sql
    .all<CollectRow>(
      `select ${kept}, state, outcome, reason, iif(sum(length(diagnostics)) over (order by n desc) <= ?2, diagnostics, '[]') as diagnostics
       from (select * from ${collects} where run_id = ?1 order by n desc limit 100) order by n desc`,
      runId,
      maxDiagnosticsLength,
    )
    .map(toCollect)
    .toReversed()
}

export function toCollect(row: CollectRow): Collect {
  return {
    id: row.id as Collect['id'],
    turnId: row.turn_id as Collect['turnId'],
    generation: row.generation,
    mode: row.mode,
    state: row.state,
    whileRunning: row.until_message !== null,
    outcome: row.outcome,
    reason: row.reason,
    candidates: row.candidates,
    imported: row.imported,
    statistics: JSON.parse(row.statistics ?? 'null') as ProofStatistics | null,
    diagnostics: JSON.parse(row.diagnostics) as Diagnostic[],
    createdAt: row.created_at,
    endedAt: row.ended_at,
  }
}
