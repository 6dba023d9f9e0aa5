import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createClient } from '@libsql/client/web'
import { idAlphabet } from '../src/contract/ids.ts'
import { apiKeyPattern } from '../src/contract/key.ts'
import { randomText, writePrivateFile } from './state.ts'

export interface FirstKey {
  organisationId: string
  secret: string
  path: string
  created: boolean
}

/** The organisation and its first admin key: made on the first run, or again for whichever of the two was lost. */
export async function ensureFirstKey(
  stateDir: string,
  url: string,
  token: string,
): Promise<FirstKey> {
  const path = join(stateDir, 'admin-key')
  const known = existsSync(path) ? readFileSync(path, 'utf8').trim() : ''
  const created = !apiKeyPattern.test(known)
  const secret = created ? `gk_${randomText(32, '0123456789abcdefghijklmnopqrstuvwxyz')}` : known
  const client = createClient({ url, authToken: token })
  try {
    const now = Date.now()
    const hash = createHash('sha256').update(secret).digest('hex')
    const found = await client.execute({
      sql: 'select organisation_id from api_keys where secret_hash = ?',
      args: [hash],
    })
    const owner = found.rows[0]?.['organisation_id']
    if (typeof owner === 'string') return { organisationId: owner, secret, path, created: false }
    const organisations = await client.execute(
      'select id from organisations order by created_at limit 1',
    )
    const existing = organisations.rows[0]?.['id']
    const organisationId =
      typeof existing === 'string' ? existing : `org_${randomText(20, idAlphabet)}`
    await client.batch(
      [
        {
          sql: 'insert into organisations (id, name, created_at) values (?, ?, ?) on conflict do nothing',
          args: [organisationId, 'Local', now],
        },
        {
          sql: `insert into api_keys (id, organisation_id, name, owner, scopes, secret_hash, created_at)
            values (?, ?, ?, ?, ?, ?, ?)`,
          args: [
            `key_${randomText(20, idAlphabet)}`,
            organisationId,
            'First key',
            'local',
            '["admin"]',
            hash,
            now,
          ],
        },
      ],
      'write',
    )
    writePrivateFile(path, `${secret}\n`)
    return { organisationId, secret, path, created: true }
  } finally {
    client.close()
  }
}
