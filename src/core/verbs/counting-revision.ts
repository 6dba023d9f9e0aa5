import type { RegistryRevision } from '../../contract/promotion.ts'
import type { Db } from '../ports.ts'
import { findRunnableAbility } from '../registry/abilities/abilities.ts'
import { findAgent } from '../registry/agents/agents.ts'
import { findProfile } from '../registry/agents/profiles.ts'
import { findCurrentSkillHash } from '../registry/skills/skills.ts'

/** The hash of the revision that sessions of a project begin with today. Null: it has no such row. */
export async function countingRevisionHash(
  db: Db,
  { organisationId, project }: { organisationId: string; project: string },
  { kind, name }: Pick<RegistryRevision, 'kind' | 'name'>,
): Promise<string | null> {
  const place = { organisationId, project, scope: 'project', memberId: '' } as const
  if (kind === 'skill') return await findCurrentSkillHash(db, place, name)
  if (kind === 'ability')
    return (await findRunnableAbility(db, { organisationId, project }, name))?.hash ?? null
  if (kind === 'policy') return null
  const found = await (kind === 'agent' ? findAgent : findProfile)(db, place, name)
  return found?.archivedAt === null ? found.sha256 : null
}
