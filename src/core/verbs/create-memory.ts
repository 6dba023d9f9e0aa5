import type { Memory, MemoryCreate } from '../../contract/memory.ts'
import type { Clock, Crypto, Db } from '../ports.ts'
import { saveMemory } from '../registry/memories/memories.ts'
import { placeOf } from '../registry/place.ts'
import type { Caller } from '../session/record/caller.ts'
import { claimId, type ClaimIdPorts } from './claim-id.ts'

interface CreateMemoryPorts extends ClaimIdPorts {
  db(): Db
  crypto: Crypto
  now: Clock
}

/** Once per Idempotency-Key: a repeat gives the same memory. */
export async function createMemory(
  ports: CreateMemoryPorts,
  caller: Pick<Caller, 'organisationId' | 'keyId' | 'memberId' | 'limits'>,
  { project, scope, ...fields }: MemoryCreate,
  key: string | null,
): Promise<Memory> {
  const { organisationId, keyId: savedBy } = caller
  const body = { project, scope, ...fields }
  const id = await claimId(ports, organisationId, { prefix: 'mem', key, body })
  const place = placeOf(caller, { project, scope })
  const memory = { id, ...fields, savedBy, operationId: id }
  return await saveMemory(ports.db(), ports.now(), place, memory)
}
