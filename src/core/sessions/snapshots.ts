import { addToOutbox } from '../outbox.ts'
import type { Sql } from '../ports.ts'
import { appendEvent } from './events.ts'

export const snapshotSchema = [
  `create table snapshots (
    n integer primary key,
    id text not null unique,
    target text not null,
    bytes integer not null,
    message text not null,
    created_at integer not null
  )`,
] as const

export interface StoredSnapshot {
  id: string
  target: 'configuration' | 'session'
  bytes: number
  message: string
}

/** Asked again with the same id, nothing is stored twice. */
export function storeSnapshot(
  sql: Sql,
  now: number,
  snapshot: StoredSnapshot & {
    configurationId: string | null
    provider: string
    operationId: string
  },
): void {
  const { id, target, bytes, message } = snapshot
  if (sql.all('select 1 from snapshots where id = ?', id).length > 0) return
  sql.run(
    'insert into snapshots (id, target, bytes, message, created_at) values (?, ?, ?, ?, ?)',
    id,
    target,
    bytes,
    message,
    now,
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
    createdAt: now,
  })
}

/** What a replacement starts from: the session's own newest. */
export function newestSnapshot(sql: Sql): string | null {
  return sql.all<{ id: string }>(`select id from snapshots order by n desc limit 1`)[0]?.id ?? null
}

/** Those that nobody else starts from: a configuration's base outlives the session that made it. */
export function ownSnapshots(sql: Sql): string[] {
  return sql
    .all<{ id: string }>(`select id from snapshots where target = 'session'`)
    .map(({ id }) => id)
}
