import { AppError } from '../../contract/error.ts'
import type { KeyCreate, KeyCreated } from '../../contract/key.ts'
import type { Clock, Crypto, Db } from '../ports.ts'
import { insertKey as storeNewKey } from '../registry/keys.ts'
import { loadMember } from '../registry/members.ts'
import type { Caller } from '../session/record/caller.ts'
import { claimId, type ClaimIdPorts } from './claim-id.ts'

interface CreateKeyPorts extends ClaimIdPorts {
  db(): Db
  crypto: Crypto
  now: Clock
}

/**
 * Of the member of whoever asks, unless another one is named; a name that nobody has makes a member. Once per
 * Idempotency-Key: a repeat is refused and names the key.
 */
export async function createKey(
  ports: CreateKeyPorts,
  caller: Pick<Caller, 'organisationId' | 'keyId' | 'memberId' | 'owner' | 'countsAs'>,
  input: KeyCreate,
  key: string | null,
): Promise<KeyCreated> {
  const { organisationId } = caller
  const owner = await ownerOf(ports.db(), caller, input)
  const id = await claimId(ports, organisationId, { prefix: 'key', key, body: input })
  const { memberId: _, ...wanted } = { ...input, owner }
  const made = { id, maker: caller }
  return await storeNewKey(ports.db(), ports.crypto, ports.now(), organisationId, wanted, made)
}

async function ownerOf(
  db: Db,
  { organisationId, owner: own }: Pick<Caller, 'organisationId' | 'owner'>,
  { memberId, owner }: KeyCreate,
): Promise<string> {
  if (memberId === undefined) return owner ?? own
  if (owner !== undefined)
    throw new AppError('invalid_request', 'A key belongs to one member: name it once', [
      { path: 'owner', message: 'Leave it out beside memberId' },
    ])
  return (await loadMember(db, organisationId, memberId)).name
}
