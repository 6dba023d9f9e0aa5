import type { Artifact, CollectedFile } from '../../contract/artifact.ts'
import { AppError } from '../../contract/error.ts'
import { type DiffReport, maxDiffBytes, type SessionDiff } from '../../contract/session.ts'
import { addToOutbox } from '../outbox.ts'
import type { Sql } from '../ports.ts'
import { appendEvent } from './events.ts'

const columns = `id, operation_id as operationId, path, content_type as contentType, size, sha256, created_at as createdAt`

/** Keyed by operation and path, so an operation that runs again stores nothing twice. */
export function storeArtifacts(
  sql: Sql,
  now: number,
  operationId: string,
  files: (CollectedFile & { id: string })[],
): void {
  for (const file of files) {
    const known = sql.all(
      'select 1 from artifacts where operation_id = ? and path = ?',
      operationId,
      file.path,
    )
    if (known.length > 0) continue
    sql.run(
      `insert into artifacts (id, operation_id, path, content_type, size, sha256, created_at) values (?, ?, ?, ?, ?, ?, ?)`,
      file.id,
      operationId,
      file.path,
      file.contentType,
      file.size,
      file.sha256,
      now,
    )
    appendEvent(sql, now, 'artifact.stored', {
      id: file.id,
      path: file.path,
      size: file.size,
      contentType: file.contentType,
    })
    addToOutbox(sql, now, 'artifact', { ...file, operationId, createdAt: now })
  }
}

export function listArtifacts(sql: Sql): Artifact[] {
  return sql.all<Artifact>(`select ${columns} from artifacts order by n`)
}

export function loadArtifact(sql: Sql, id: string): Artifact {
  const found = sql.all<Artifact>(`select ${columns} from artifacts where id = ?`, id)[0]
  if (!found) throw new AppError('not_found', `No such artifact: "${id}"`)
  return found
}

export function saveDiff(sql: Sql, now: number, report: DiffReport): void {
  const text = JSON.stringify(report)
  const kept =
    text.length <= 2 * maxDiffBytes
      ? text
      : JSON.stringify({ ...report, patch: '', truncated: true })
  sql.run('delete from diff')
  sql.run('insert into diff (at, report) values (?, ?)', now, kept)
}

export function loadDiff(sql: Sql): SessionDiff {
  const row = sql.all<{ at: number; report: string }>('select at, report from diff')[0]
  if (!row) return { at: null, live: false, patch: '', files: [], truncated: false }
  return { ...(JSON.parse(row.report) as DiffReport), at: row.at, live: false }
}
