import type { SkillProposal, SkillPropose } from '../../contract/skill-proposal.ts'
import type { Clock, Crypto, Db } from '../ports.ts'
import { createProposal, viewProposal } from '../registry/skills/proposals.ts'
import { loadSkill, type SkillCaller } from '../registry/skills/skills.ts'
import { claimId, type ClaimIdPorts } from './claim-id.ts'

interface ProposePorts extends ClaimIdPorts {
  db(): Db
  crypto: Crypto
  now: Clock
}

/** By a person, once per Idempotency-Key. The skill stays as it is. */
export async function proposeSkill(
  ports: ProposePorts,
  caller: SkillCaller,
  skillId: string,
  input: SkillPropose,
  key: string | null,
): Promise<SkillProposal> {
  const { organisationId, keyId, memberId } = caller
  const db = ports.db()
  const skill = await loadSkill(db, caller, skillId)
  const body = { skillId, ...input }
  const id = await claimId(ports, organisationId, { prefix: 'skp', key, body })
  const asker = {
    kind: 'key' as const,
    id: keyId,
    memberId,
    countsAs: caller.countsAs?.memberId ?? null,
  }
  await createProposal(db, ports.crypto, ports.now(), caller, { id, skill, asker, input })
  return await viewProposal(db, caller, id)
}
