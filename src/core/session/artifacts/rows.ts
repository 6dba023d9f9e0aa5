import type { Artifact, CollectedFile } from '../../../contract/artifact.ts'
import { AppError } from '../../../contract/error.ts'
import { addToOutbox } from '../../actor/outbox.ts'
import { nextPageStart, pageOf } from '../../actor/paging.ts'
import type { Sql } from '../../ports.ts'
import { appendEvent } from '../log/events.ts'

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

/** All of them, anew. */
export function projectArtifacts(sql: Sql, now: number): void {
  for (const artifact of sql.all<Artifact>(`select ${columns} from artifacts order by n`))
    addToOutbox(sql, now, 'artifact', artifact)
}

export function listArtifacts(
  sql: Sql,
  page: { limit: number; after: number | null },
): { items: Artifact[]; next: number | null } {
  const rows = pageOf<ArtifactRow>(sql, { table: 'artifacts', size: 'length(path)' }, page)
  return { items: rows.map(toArtifact), next: nextPageStart(sql, 'artifacts', rows) }
}

interface ArtifactRow {
  n: number
  id: string
  operation_id: string
  path: string
  content_type: string
  size: number
  sha256: string
  created_at: number
}

const toArtifact = (row: ArtifactRow): Artifact => ({
  id: row.id as Artifact['id'],
  operationId: row.operation_id,
  path: row.path,
  contentType: row.content_type,
  size: row.size,
  sha256: row.sha256,
  createdAt: row.created_at,
})

export function loadArtifactRow(sql: Sql, id: string): Artifact {
  const found = sql.all<Artifact>(`select ${columns} from artifacts where id = ?`, id)[0]
  if (!found) throw new AppError('not_found', `No such artifact: "${id}"`)
  return found
}
