import type { KeyCreate, KeyCreated } from '../../contract/key.ts'
import type { Clock, Crypto, Db } from '../ports.ts'
import { createKey as storeNewKey } from '../registry/keys.ts'
import type { Caller } from '../session/record/caller.ts'
import { claimId, type ClaimIdPorts } from './claim-id.ts'

interface CreateKeyPorts extends ClaimIdPorts {
  db(): Db
  crypto: Crypto
  now: Clock
}

/** Of whoever asks, unless another owner is named. Once per Idempotency-Key: a repeat is refused and names the key. */
export async function createKey(
  ports: CreateKeyPorts,
  { organisationId, owner }: Pick<Caller, 'organisationId' | 'owner'>,
  input: KeyCreate,
  key: string | null,
): Promise<KeyCreated> {
  const id = await claimId(ports, organisationId, { prefix: 'key', key, body: input })
  const wanted = { ...input, owner: input.owner ?? owner }
  return await storeNewKey(ports.db(), ports.crypto, ports.now(), organisationId, wanted, id)
}
