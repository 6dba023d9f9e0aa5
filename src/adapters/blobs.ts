import { AppError } from '../contract/error.ts'
import type { BlobHolder, Blobs, Clock, Db, DbStatement, DbValue } from '../core/ports.ts'

/** Small enough for one row and one request, also in base64. */
const chunkBytes = 512 * 1024

/**
 * Blobs in libSQL. A claim is written before anything is looked up or stored, and whoever deletes looks for claims in
 * the transaction that deletes: what was answered as there stays. Everything else is written only while the claim is
 * there, so an upload that outlives its session leaves nothing. The index row is written last, so a blob that is listed
 * is complete.
 */
export function createBlobs(db: Db, now: Clock): Blobs {
  return {
    async put(holder, sha256, bytes) {
      await db.batch([claim(holder, now(), 'select ?4 as sha256', sha256)])
      if (await isStored(db, holder, sha256)) return
      for (let chunk = 0; chunk * chunkBytes < bytes.length; chunk++) {
        const part = bytes.subarray(chunk * chunkBytes, (chunk + 1) * chunkBytes)
        await db.batch([whileHeld(holder, sha256, 'blobs', { chunk, bytes: part })])
      }
      const index = { size: bytes.length, created_at: now() }
      await db.batch([whileHeld(holder, sha256, 'blob_index', index)])
    },

    async hold(holder, sha256s) {
      const names = JSON.stringify(sha256s)
      const stored = `select sha256 from blob_index
        where organisation_id = ?1 and sha256 in (select value from json_each(?4))`
      await db.batch([claim(holder, now(), stored, names)])
      const rows = await db.all<{ sha256: string; size: number }>(
        `select sha256, size from blob_index join blob_claims using (organisation_id, sha256)
         where organisation_id = ? and session_id = ? and sha256 in (select value from json_each(?))`,
        holder.organisationId,
        holder.sessionId,
        names,
      )
      return new Map(rows.map((row) => [row.sha256, row.size]))
    },

    async get(organisationId, sha256) {
      const [index] = await db.all<{ size: number }>(
        'select size from blob_index where organisation_id = ? and sha256 = ?',
        organisationId,
        sha256,
      )
      if (!index) return null
      const bytes = new Uint8Array(index.size)
      // One by one: the server bounds the size of one answer.
      for (let chunk = 0; chunk * chunkBytes < index.size; chunk++) {
        const [row] = await db.all<{ bytes: Uint8Array }>(
          'select bytes from blobs where organisation_id = ? and sha256 = ? and chunk = ?',
          organisationId,
          sha256,
          chunk,
        )
        // Deleted since the index was read.
        if (!row) return null
        bytes.set(row.bytes, chunk * chunkBytes)
      }
      return bytes
    },
  }
}

/** A claim for each of `names` (SQL; ?4 is its value), unless the session is erased. An old one is as good as new. */
function claim(holder: BlobHolder, at: number, names: string, value: string): DbStatement {
  return {
    sql: `insert into blob_claims (organisation_id, session_id, claimed_at, sha256)
      select ?1, ?2, ?3, sha256 from (${names})
      where not exists (select 1 from outbox_watermarks where session_id = ?2 and erased_at is not null)
      on conflict do update set claimed_at = max(claimed_at, excluded.claimed_at)`,
    values: [holder.organisationId, holder.sessionId, at, value],
  }
}

/** Of what the session has claimed. Without its claim it was erased meanwhile. */
async function isStored(db: Db, holder: BlobHolder, sha256: string): Promise<boolean> {
  const [row] = await db.all<{ size: number | null }>(
    `select size from blob_claims left join blob_index using (organisation_id, sha256)
     where organisation_id = ? and sha256 = ? and session_id = ?`,
    holder.organisationId,
    sha256,
    holder.sessionId,
  )
  if (!row) throw new AppError('not_found', 'No such session')
  return row.size !== null
}

function whileHeld(
  { organisationId, sessionId }: BlobHolder,
  sha256: string,
  table: string,
  row: Record<string, DbValue>,
): DbStatement {
  const columns = Object.keys(row)
  return {
    sql: `insert into ${table} (organisation_id, sha256, ${columns.join(', ')})
      select organisation_id, sha256, ${columns.map((_, index) => `?${index + 4}`).join(', ')} from blob_claims
      where organisation_id = ?1 and sha256 = ?2 and session_id = ?3
      on conflict do nothing`,
    values: [organisationId, sha256, sessionId, ...Object.values(row)],
  }
}
