import { AppError } from '../contract/error.ts'
import type { BlobHolder, Blobs, Clock, Db, DbStatement, DbValue } from '../core/ports.ts'

/** Small enough for one row and one request, also in base64. */
const chunkBytes = 512 * 1024
/** What one row of a small blob adds to a request beside its bytes. */
const rowBytes = 1024

/**
 * Blobs in libSQL. A claim is written before anything is looked up or stored, and whoever deletes looks for claims in
 * the transaction that deletes: what was answered as there stays. Everything else is written only while the claim is
 * there, so an upload that outlives its session leaves nothing. The index row is written last, so a blob that is listed
 * is complete.
 */
export function createBlobs(db: Db, now: Clock): Blobs {
  async function putAll(holder: BlobHolder, blobs: ReadonlyMap<string, Uint8Array>): Promise<void> {
    if (blobs.size === 0) return
    const names = JSON.stringify([...blobs.keys()])
    const named = 'select value as sha256 from json_each(?4)'
    await db.batch([claim(holder, now(), named, names)])
    const known = await knownOf(db, holder, names)
    // Without its claim it was erased meanwhile.
    if (known.size < blobs.size) throw new AppError('not_found', 'No such session')
    const writes = [...blobs].flatMap(([sha256, bytes]) =>
      known.get(sha256) === true ? [] : writesOf(holder, sha256, bytes, now()),
    )
    for (const batch of inRequests(writes)) await db.batch(batch)
  }
  return {
    putAll,
    put: (holder, sha256, bytes) => putAll(holder, new Map([[sha256, bytes]])),

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

/** Of these, what the session has claimed, and whether it is stored. */
async function knownOf(
  db: Db,
  { organisationId, sessionId }: BlobHolder,
  names: string,
): Promise<Map<string, boolean>> {
  const rows = await db.all<{ sha256: string; size: number | null }>(
    `select sha256, size from blob_claims left join blob_index using (organisation_id, sha256)
     where organisation_id = ? and session_id = ? and sha256 in (select value from json_each(?))`,
    organisationId,
    sessionId,
    names,
  )
  return new Map(rows.map(({ sha256, size }) => [sha256, size !== null]))
}

interface Write {
  bytes: number
  statement: DbStatement
}

function writesOf(holder: BlobHolder, sha256: string, bytes: Uint8Array, at: number): Write[] {
  const writes: Write[] = []
  for (let chunk = 0; chunk * chunkBytes < bytes.length; chunk++) {
    const part = bytes.subarray(chunk * chunkBytes, (chunk + 1) * chunkBytes)
    const row = { chunk, bytes: part }
    writes.push({
      bytes: part.length + rowBytes,
      statement: whileHeld(holder, sha256, 'blobs', row),
    })
  }
  const index = { size: bytes.length, created_at: at }
  return [...writes, { bytes: rowBytes, statement: whileHeld(holder, sha256, 'blob_index', index) }]
}

/** In order: many small ones go together, and a large one alone. */
function inRequests(writes: readonly Write[]): DbStatement[][] {
  const requests: DbStatement[][] = []
  let room = 0
  for (const { bytes, statement } of writes) {
    room -= bytes
    if (room < 0) {
      requests.push([])
      room = chunkBytes + rowBytes - bytes
    }
    requests.at(-1)?.push(statement)
  }
  return requests
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
