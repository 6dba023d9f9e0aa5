import { AppError } from '../../../contract/error.ts'
import type {
  Skill,
  SkillAttachment,
  SkillSource,
  SkillState,
  SkillVersion,
} from '../../../contract/skill.ts'
import type { Db } from '../../ports.ts'
import { type Limited, mayUseProject } from '../place.ts'

/** Who asks: a personal skill is there for its member alone. */
export interface SkillCaller extends Limited {
  organisationId: string
  memberId: string
  keyId: string
  /** Who has made the key, while it is new: votes count as this member's. */
  countsAs?: { memberId: string } | null
}

export const skillColumns = `id, project, scope, name, description, current_version as currentVersion,
  created_by as createdBy, created_at as createdAt, updated_at as updatedAt`

/** Its own rows, and what its projects share. */
export const visible = `organisation_id = ?1 and member_id in ('', ?2)`

export const versionColumns = `skill_id as skillId, version, state, description, compatibility, source, sha256,
  created_by as createdBy, created_at as createdAt`

export type VersionRow = Omit<SkillVersion, 'source' | 'state'> & {
  source: string
  state: SkillState
}

export const versionOf = (row: VersionRow): SkillVersion => ({
  ...row,
  source: JSON.parse(row.source) as SkillSource,
})

/** What is not there, another organisation's, another member's and what the key is not for are refused alike. */
export async function loadSkill(db: Db, caller: SkillCaller, skillId: string): Promise<Skill> {
  const [row] = await db.all<Skill>(
    `select ${skillColumns} from skills where ${visible} and id = ?3`,
    caller.organisationId,
    caller.memberId,
    skillId,
  )
  if (!row || !mayUseProject(caller, row.project))
    throw new AppError('not_found', 'There is no such skill')
  return row
}

/** Of a session that has pinned it: whoever created the session has seen it. */
export async function findSkillOf(
  db: Db,
  organisationId: string,
  skillId: string,
): Promise<Skill | null> {
  const [row] = await db.all<Skill>(
    `select ${skillColumns} from skills where organisation_id = ? and id = ?`,
    organisationId,
    skillId,
  )
  return row ?? null
}

/** Of a skill that was loaded for its caller. */
export async function findSkillVersion(
  db: Db,
  { id }: Pick<Skill, 'id'>,
  version: number | null,
): Promise<SkillVersion | null> {
  const [row] = await db.all<VersionRow>(
    `select ${versionColumns} from skill_versions where skill_id = ? and version = ?`,
    id,
    version,
  )
  return row ? versionOf(row) : null
}

export async function mustFindSkillVersion(
  db: Db,
  skill: Pick<Skill, 'id'>,
  version: number,
): Promise<SkillVersion> {
  const found = await findSkillVersion(db, skill, version)
  if (!found) throw new AppError('not_found', `The skill has no version ${version}`)
  return found
}

/** Newest first. */
export async function listSkillVersions(
  db: Db,
  { id }: Pick<Skill, 'id'>,
  page: { limit: number; before: number | null },
): Promise<SkillVersion[]> {
  const rows = await db.all<VersionRow>(
    `select ${versionColumns} from skill_versions where skill_id = ? and version < ?
     order by version desc limit ?`,
    id,
    page.before ?? Number.MAX_SAFE_INTEGER,
    page.limit,
  )
  return rows.map(versionOf)
}

export async function listSkillAttachments(
  db: Db,
  { id }: Pick<Skill, 'id'>,
): Promise<SkillAttachment[]> {
  return await db.all<SkillAttachment>(
    `select target_type as targetType, target_key as targetKey, version, created_by as createdBy,
       created_at as createdAt
     from skill_attachments where skill_id = ? order by target_type, target_key`,
    id,
  )
}
