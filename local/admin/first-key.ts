import { join } from 'node:path'
import { createLibsql } from '../../src/adapters/libsql.ts'
import { createWebCrypto } from '../../src/adapters/web-crypto.ts'
import { createOrganisation } from '../../src/core/registry/organisations.ts'
import type { Crypto, Db } from '../../src/core/ports.ts'
import { keepKeyFile } from './key-file.ts'

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
  const ports = { db: createLibsql({ url, token }), crypto: createWebCrypto([]) }
  const kept = await keepKeyFile(ports, path, {
    organisationId: await firstOrganisation(ports),
    name: 'First key',
    owner: 'local',
    maker: null,
    scopes: ['admin'],
    // The file may have been lost, and its key with it.
    oncePerName: false,
  })
  if (kept === null) throw new Error('The first key was not stored')
  const { secret, created, key } = kept
  return { organisationId: key.organisationId, secret, path, created }
}

async function firstOrganisation({ db, crypto }: { db: Db; crypto: Crypto }): Promise<string> {
  const [first] = await db.all<{ id: string }>(
    'select id from organisations order by created_at limit 1',
  )
  return first?.id ?? (await createOrganisation(db, crypto, Date.now(), 'Local'))
}
