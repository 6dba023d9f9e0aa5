import type { SkillId } from '../../contract/ids.ts'
import type { SessionPin } from '../../contract/pin.ts'
import type { PromotionKind, RegistryRevision } from '../../contract/promotion.ts'
import type { Db } from '../ports.ts'
import { pinnedAbilityHash } from '../registry/abilities/abilities.ts'
import { findSkillVersion } from '../registry/skills/skills.ts'

const kinds: Partial<Record<SessionPin['kind'], PromotionKind>> = {
  ...{ agent: 'agent', subagent: 'agent', profile: 'profile', skill: 'skill', ability: 'ability' },
}

/** What a session began with, by the hashes that the registries have of their revisions. */
export async function pinnedRevisions(
  db: Db,
  owner: { organisationId: string; project: string },
  pins: readonly SessionPin[],
): Promise<RegistryRevision[]> {
  const found = pins.map(async (pin) => {
    const kind = kinds[pin.kind]
    const sha256 = await hashOf(db, owner, pin)
    return kind === undefined || sha256 === null ? [] : [{ kind, name: pin.name, sha256 }]
  })
  return (await Promise.all(found)).flat()
}

/** A session is given less of a skill or an ability than its revision says. */
async function hashOf(
  db: Db,
  owner: { organisationId: string; project: string },
  { kind, id, name, revision, sha256 }: SessionPin,
): Promise<string | null> {
  if (kind === 'skill')
    return (await findSkillVersion(db, { id: id as SkillId }, revision))?.sha256 ?? null
  if (kind === 'ability') return await pinnedAbilityHash(db, owner, name, revision)
  return sha256
}
