import type { WarmPoolView } from '../../../contract/warm-pool.ts'
import type { ProviderName } from '../../../contract/sandbox.ts'
import type { Sql } from '../../ports.ts'

/**
 * The rows of warm pools and of their sessions. `warm_pools` has one row per configuration that wants a pool,
 * `warm_sessions` one per session that was booted for it.
 */

/** new: its session may not be there yet. dropped: it is to go. claimed: promised to a creation; adopted: it has got it. */
type WarmRowState = 'new' | 'starting' | 'ready' | 'dropped' | 'claimed' | 'adopted'

export interface WarmRow {
  sessionId: string
  configurationId: string
  version: string
  state: WarmRowState
  claimedFor: string | null
  createdAt: number
  changedAt: number
  readyAt: number | null
}
const columns = `session_id as sessionId, configuration_id as configurationId, version, state,
  claimed_for as claimedFor, created_at as createdAt, changed_at as changedAt, ready_at as readyAt`

export interface PoolRow {
  configurationId: string
  size: number
  version: string
  provider: ProviderName
  project: string
  failures: number
  retryAt: number | null
  reason: string | null
}
const poolColumns = `configuration_id as configurationId, size, version, provider, project, failures,
  retry_at as retryAt, reason`

export function listPools(sql: Sql): PoolRow[] {
  return sql.all<PoolRow>(`select ${poolColumns} from warm_pools order by configuration_id`)
}

export function findPool(sql: Sql, configurationId: string): PoolRow | undefined {
  return sql.all<PoolRow>(
    `select ${poolColumns} from warm_pools where configuration_id = ?`,
    configurationId,
  )[0]
}

export function ensurePool(sql: Sql, configurationId: string): void {
  sql.run('insert or ignore into warm_pools (configuration_id) values (?)', configurationId)
}

export function savePool(
  sql: Sql,
  pool: Pick<PoolRow, 'configurationId' | 'size' | 'version' | 'provider' | 'project'>,
): void {
  sql.run(
    'update warm_pools set size = ?, version = ?, provider = ?, project = ? where configuration_id = ?',
    pool.size,
    pool.version,
    pool.provider,
    pool.project,
    pool.configurationId,
  )
}

export function deletePool(sql: Sql, configurationId: string): void {
  sql.run('delete from warm_pools where configuration_id = ?', configurationId)
}

export function putOffPool(
  sql: Sql,
  configurationId: string,
  why: Pick<PoolRow, 'failures' | 'retryAt' | 'reason'>,
): void {
  sql.run(
    'update warm_pools set failures = ?, retry_at = ?, reason = ? where configuration_id = ?',
    why.failures,
    why.retryAt,
    why.reason,
    configurationId,
  )
}

/** Those that wait, and those that are to wait. The first to be given up come first. */
export function waitingPoolRows(sql: Sql, configurationId: string): WarmRow[] {
  return sql.all<WarmRow>(
    `select ${columns} from warm_sessions where configuration_id = ? and state in ('new', 'starting', 'ready')
     order by state = 'ready', state = 'starting', created_at desc, session_id`,
    configurationId,
  )
}

export function rowsInPool(
  sql: Sql,
  state: WarmRowState,
  until = Number.MAX_SAFE_INTEGER,
): WarmRow[] {
  return sql.all<WarmRow>(
    `select ${columns} from warm_sessions where state = ? and changed_at <= ? order by created_at, session_id`,
    state,
    until,
  )
}

export function findPoolRow(sql: Sql, sessionId: string): WarmRow | undefined {
  return sql.all<WarmRow>(`select ${columns} from warm_sessions where session_id = ?`, sessionId)[0]
}

export function findPoolClaim(sql: Sql, creationId: string): WarmRow | undefined {
  return sql.all<WarmRow>(
    `select ${columns} from warm_sessions where claimed_for = ?`,
    creationId,
  )[0]
}

/** The oldest first: those that are left have the longer lives. */
export function firstReadyInPool(
  sql: Sql,
  configurationId: string,
  version: string,
): WarmRow | undefined {
  return sql.all<WarmRow>(
    `select ${columns} from warm_sessions where configuration_id = ? and version = ? and state = 'ready'
     order by created_at, session_id limit 1`,
    configurationId,
    version,
  )[0]
}

export function insertPoolRow(
  sql: Sql,
  now: number,
  row: Pick<WarmRow, 'sessionId' | 'configurationId' | 'version'>,
): void {
  sql.run(
    `insert into warm_sessions (session_id, configuration_id, version, state, created_at, changed_at)
     values (?, ?, ?, 'new', ?, ?)`,
    row.sessionId,
    row.configurationId,
    row.version,
    now,
    now,
  )
}

export function movePoolRow(sql: Sql, now: number, sessionId: string, state: WarmRowState): void {
  sql.run(
    `update warm_sessions set changed_at = ?1, state = ?2,
       ready_at = case when ?2 = 'ready' then coalesce(ready_at, ?1) else ready_at end
     where session_id = ?3`,
    now,
    state,
    sessionId,
  )
}

export function setPoolClaim(sql: Sql, sessionId: string, creationId: string | null): void {
  sql.run('update warm_sessions set claimed_for = ? where session_id = ?', creationId, sessionId)
}

export function deletePoolRow(sql: Sql, sessionId: string): void {
  sql.run('delete from warm_sessions where session_id = ?', sessionId)
}

/** They will ask for a place, and hold none yet. */
export function countPlacelessInPools(sql: Sql): number {
  const [row] = sql.all<{ count: number }>(
    `select count(*) as count from warm_sessions where state in ('new', 'starting') and session_id not in
       (select session_id from reservations where ended_at is null)`,
  )
  return row?.count ?? 0
}

export function viewPool(sql: Sql, configurationId: string): WarmPoolView {
  const pool = findPool(sql, configurationId)
  const rows = waitingPoolRows(sql, configurationId)
  const ready = rows.filter(({ state }) => state === 'ready').length
  return {
    size: pool?.size ?? 0,
    ready,
    starting: rows.length - ready,
    reason: pool?.reason ?? null,
    retryAt: pool?.retryAt ?? null,
  }
}

export function isColdInPool(sql: Sql, creationId: string): boolean {
  return (
    sql.all('select 1 from creations where session_id = ? and is_cold = 1', creationId).length > 0
  )
}

export function markColdInPool(sql: Sql, creationId: string): void {
  sql.run('update creations set is_cold = 1 where session_id = ?', creationId)
}
