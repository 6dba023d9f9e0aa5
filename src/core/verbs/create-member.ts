import type { Member, MemberCreate } from '../../contract/member.ts'
import type { Clock, Crypto, Db } from '../ports.ts'
import { insertMember as storeMember } from '../registry/members.ts'
import type { Caller } from '../session/record/caller.ts'
import { claimId, type ClaimIdPorts } from './claim-id.ts'

interface CreateMemberPorts extends ClaimIdPorts {
  db(): Db
  crypto: Crypto
  now: Clock
}

/** Once per Idempotency-Key: a repeat gives the same member. */
export async function createMember(
  ports: CreateMemberPorts,
  caller: Pick<Caller, 'organisationId' | 'keyId' | 'memberId'>,
  input: MemberCreate,
  key: string | null,
): Promise<Member> {
  const { organisationId } = caller
  const id = await claimId(ports, organisationId, { prefix: 'mbr', key, body: input })
  const member = { ...input, id, organisationId, maker: caller }
  return await storeMember(ports.db(), ports.crypto, ports.now(), member)
}
