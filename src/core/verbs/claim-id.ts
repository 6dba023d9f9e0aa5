import { canonicalJson } from '../../contract/canonical.ts'
import type { OrganisationApi } from '../organisation/organisation.ts'
import type { Crypto } from '../ports.ts'

export interface ClaimIdPorts {
  crypto: Pick<Crypto, 'random' | 'sha256'>
  organisation(id: string): Pick<OrganisationApi, 'creations'>
}

/** The id that stands for an Idempotency-Key: a fresh one the first time, the same one ever after. */
export async function claimId(
  ports: ClaimIdPorts,
  organisationId: string,
  made: { prefix: 'key' | 'whk' | 'mbr' | 'mem' | 'skp'; key: string | null; body: unknown },
): Promise<string> {
  const fresh = `${made.prefix}_${ports.crypto.random(20)}`
  if (made.key === null) return fresh
  const bodyHash = await ports.crypto.sha256(canonicalJson(made.body))
  // A key that callers choose has no line break: theirs for sessions are others.
  const name = `${made.prefix}\n${made.key}`
  return await ports.organisation(organisationId).creations.claim(name, bodyHash, fresh)
}
