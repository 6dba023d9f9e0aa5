import type {
  Skill,
  SkillDetails,
  SkillQuery,
  SkillUpsert,
  SkillAttachment,
  SkillSource,
  SkillState,
  SkillVersion,
} from '../../../contract/skill.ts'
import type { Crypto, Db } from '../../ports.ts'
import { limitValues, mustMayUsePlace, placeOf, type Limited, mayUseProject } from '../place.ts'
import { mustBeSecretFree } from '../secret-free.ts'
import { AppError } from '../../../contract/error.ts'

// Skills of organisations: what they are called, and which there are. Their record is in libSQL; versions.ts has what they
// say, attachments.ts who gets them, resolve.ts what a session gets in the end.

/** Who asks: a personal skill is there for its member alone. */
export interface SkillCaller extends Limited {
  organisationId: string
  memberId: string
  keyId: string
  /** Who has made the key, while it is new: votes count as this member's. */
  countsAs?: { memberId: string } | null
}

const skillColumns = `id, project, scope, name, description, current_version as currentVersion,
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

/** Of the version that counts today of the project's skill of this name. Null: there is none. */
export async function findCurrentSkillHash(
  db: Db,
  { organisationId, project }: { organisationId: string; project: string },
  name: string,
): Promise<string | null> {
  const [row] = await db.all<{ sha256: string }>(
    `select v.sha256 from skills as s join skill_versions as v on v.skill_id = s.id and v.version = s.current_version
     where s.organisation_id = ? and s.project = ? and s.member_id = '' and s.name = ?`,
    organisationId,
    project,
    name,
  )
  return row?.sha256 ?? null
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

async function listSkillAttachments(db: Db, { id }: Pick<Skill, 'id'>): Promise<SkillAttachment[]> {
  return await db.all<SkillAttachment>(
    `select target_type as targetType, target_key as targetKey, version, created_by as createdBy,
       created_at as createdAt
     from skill_attachments where skill_id = ? order by target_type, target_key`,
    id,
  )
}

/** One row per place and name: the same name again is the same skill, with the newest description. */
export async function putSkill(
  db: Db,
  crypto: Pick<Crypto, 'random'>,
  now: number,
  caller: SkillCaller,
  { name, description, ...where }: SkillUpsert,
): Promise<Skill> {
  mustMayUsePlace(caller, where.project)
  mustBeSecretFree(`skill "${name}"`, { description })
  const { organisationId, project, scope, memberId } = placeOf(caller, where)
  const place = [organisationId, project, scope, memberId, name]
  await db.batch([
    {
      sql: `insert into skills (organisation_id, project, scope, member_id, name, id, description,
              created_by, created_at, updated_at) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            on conflict (organisation_id, project, scope, member_id, name) do update
              set description = excluded.description, updated_at = excluded.updated_at
              where description <> excluded.description`,
      values: [...place, `skl_${crypto.random(20)}`, description, caller.keyId, now, now],
    },
  ])
  const [row] = await db.all<Skill>(
    `select ${skillColumns} from skills
     where organisation_id = ? and project = ? and scope = ? and member_id = ? and name = ?`,
    ...place,
  )
  return row as Skill
}

/** With what counts today. */
export async function viewSkill(
  db: Db,
  caller: SkillCaller,
  skillId: string,
): Promise<SkillDetails> {
  const skill = await loadSkill(db, caller, skillId)
  const [current, attachments] = await Promise.all([
    findSkillVersion(db, skill, skill.currentVersion),
    listSkillAttachments(db, skill),
  ])
  return { ...skill, current, attachments }
}

/** Newest first: what the projects share, and the caller's own. */
export async function listSkills(
  db: Db,
  caller: SkillCaller,
  filter: Omit<SkillQuery, 'limit' | 'cursor'>,
  page: { limit: number; before: { createdAt: number; id: string } | null },
): Promise<Skill[]> {
  return await db.all<Skill>(
    `select ${skillColumns} from skills
     where ${visible} and (created_at, id) < (?3, ?4)
       and (?5 is null or project = ?5) and (?6 is null or scope = ?6)
       and (?7 is null or exists (select 1 from skill_versions
         where skill_id = skills.id and version = skills.current_version and state = ?7))
       and ((?8 is null and ?9 is null) or exists (select 1 from skill_attachments
         where skill_id = skills.id and (?8 is null or target_type = ?8)
           and (?9 is null or target_key = ?9)))
       and (?10 is null or project in (select value from json_each(?10)))
     order by created_at desc, id desc limit ?11`,
    caller.organisationId,
    caller.memberId,
    page.before?.createdAt ?? Number.MAX_SAFE_INTEGER,
    page.before?.id ?? '',
    filter.project ?? null,
    filter.scope ?? null,
    filter.state ?? null,
    filter.targetType ?? null,
    filter.targetKey ?? null,
    limitValues(caller).projects,
    page.limit,
  )
}
