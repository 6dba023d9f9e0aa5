import type { Blobs, Clock, Db } from '../core/ports.ts'

/** Small enough for one row and one request, also in base64. */
const chunkBytes = 512 * 1024

/** Blobs in libSQL. The index row is written last, so a blob that is listed is complete. */
export function createBlobs(db: Db, now: Clock): Blobs {
  async function sizes(organisationId: string, sha256s: string[]): Promise<Map<string, number>> {
    const rows = await db.all<{ sha256: string; size: number }>(
      `select sha256, size from blob_index
       where organisation_id = ? and sha256 in (select value from json_each(?))`,
      organisationId,
      JSON.stringify(sha256s),
    )
    return new Map(rows.map(({ sha256, size }) => [sha256, size]))
  }
  return {
    sizes,
    async put(organisationId, sha256, bytes) {
      if ((await sizes(organisationId, [sha256])).has(sha256)) return
      for (let chunk = 0; chunk * chunkBytes < bytes.length; chunk++) {
        await db.batch([
          {
            sql: `insert into blobs (organisation_id, sha256, chunk, bytes) values (?, ?, ?, ?)
                  on conflict do nothing`,
            values: [
              organisationId,
              sha256,
              chunk,
              bytes.subarray(chunk * chunkBytes, (chunk + 1) * chunkBytes),
            ],
          },
        ])
      }
      await db.batch([
        {
          sql: `insert into blob_index (organisation_id, sha256, size, created_at) values (?, ?, ?, ?)
                on conflict do nothing`,
          values: [organisationId, sha256, bytes.length, now()],
        },
      ])
    },

    async get(organisationId, sha256) {
      const size = (await sizes(organisationId, [sha256])).get(sha256)
      if (size === undefined) return null
      const bytes = new Uint8Array(size)
      // One by one: the server bounds the size of one answer.
      for (let chunk = 0; chunk * chunkBytes < size; chunk++) {
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
