import { setDeadline } from '../../actor/deadlines.ts'
import { addToOutbox } from '../../actor/outbox.ts'
import type { Sql } from '../../ports.ts'
import { appendEvent } from '../log/events.ts'

/** The newest may be inconsistent, so there is one to fall back to. */
const keptSnapshots = 2

interface StoredSnapshot {
  id: string
  target: 'configuration' | 'session'
  bytes: number
  message: string
}

/** Before the provider is asked: what may have been taken is known, and can be deleted. */
export function orderSnapshot(sql: Sql, id: string, by: 'call' | 'session'): void {
  // The session has one under way at a time, and never asks again under an old id: its content would be old, too.
  if (by === 'session') sql.run(`update snapshot_orders set stale = 1 where by = 'session'`)
  sql.run('insert or ignore into snapshot_orders (id, by) values (?, ?)', id, by)
}

/** Asked again with the same id, nothing is stored twice. */
export function storeSnapshot(
  sql: Sql,
  now: number,
  snapshot: StoredSnapshot & {
    generation: number
    configurationId: string | null
    provider: string
    operationId: string
    /** What was done after this may be missing in it. Default: now. */
    takenAt?: number
  },
): void {
  const { id, target, bytes, message, takenAt = now } = snapshot
  sql.run('delete from snapshot_orders where id = ?', id)
  if (sql.all('select 1 from snapshots where id = ?', id).length > 0) return
  sql.run(
    'insert into snapshots (id, target, bytes, message, created_at, generation) values (?, ?, ?, ?, ?, ?)',
    id,
    target,
    bytes,
    message,
    takenAt,
    snapshot.generation,
  )
  appendEvent(sql, now, 'snapshot.stored', { id, target, bytes, message })
  addToOutbox(sql, now, 'snapshot', {
    id,
    // Only what a configuration starts from outlives the session.
    configurationId: target === 'configuration' ? snapshot.configurationId : null,
    provider: snapshot.provider,
    operationId: snapshot.operationId,
    message,
    bytes,
    createdAt: takenAt,
  })
  if (prunableSnapshots(sql).length > 0) setDeadline(sql, 'snapshots.prune', now)
}

const newestFirst = 'order by generation desc, n desc'

/** What a replacement starts from: the session's own newest, then the one before. */
export function restorableSnapshots(sql: Sql): string[] {
  return sql
    .all<{ id: string }>(`select id from snapshots ${newestFirst} limit ?`, keptSnapshots)
    .map(({ id }) => id)
}

/** Those that nobody else starts from: a configuration's base outlives the session that made it. */
export function ownSnapshots(sql: Sql): string[] {
  return sql
    .all<{ id: string }>(
      `select id from snapshots where target = 'session' union select id from snapshot_orders`,
    )
    .map(({ id }) => id)
}

/** Own ones that are older than those that are kept, and what nobody has heard of since it was asked for. */
export function prunableSnapshots(sql: Sql): string[] {
  return sql
    .all<{ id: string }>(
      `select id from snapshots where target = 'session'
         and id not in (select id from snapshots ${newestFirst} limit ?)
       union select id from snapshot_orders where stale = 1`,
      keptSnapshots,
    )
    .map(({ id }) => id)
}

export function forgetSnapshot(sql: Sql, now: number, id: string): void {
  sql.run('delete from snapshot_orders where id = ?', id)
  sql.run('delete from snapshots where id = ?', id)
  addToOutbox(sql, now, 'snapshot.deleted', { id })
}

/** A configuration has been told to start from it: it is no longer the session's to delete. */
export function giveAwaySnapshot(sql: Sql, id: string): void {
  sql.run(`update snapshots set target = 'configuration' where id = ?`, id)
}
