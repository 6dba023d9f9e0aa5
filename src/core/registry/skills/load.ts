import type { SkillTarget, SkillVersion } from '../../../contract/skill.ts'
import type { Db } from '../../ports.ts'
import { type RegisteredSkill, type ResolveQuery, resolvedSkillTargets } from './resolve.ts'
import { versionColumns, versionOf, type VersionRow, visible } from './skills.ts'

interface Owner {
  organisationId: string
  memberId: string
}

type SkillRow = Pick<RegisteredSkill, 'id' | 'scope' | 'name' | 'currentVersion'>
type AttachmentRow = SkillTarget & { skillId: string; version: number | null }

/** Each may bring 64 KiB. Who is named comes before who is attached. */
const maxSkills = 200

/** The rows that may count for the query: the project's, and those of the member who asks. */
export async function loadRegisteredSkills(
  db: Db,
  { organisationId, memberId }: Owner,
  project: string,
  query: ResolveQuery,
): Promise<RegisteredSkill[]> {
  const targets = resolvedSkillTargets(query).map(
    ({ targetType, targetKey }) => `${targetType}/${targetKey}`,
  )
  const references = [...query.skills, ...(query.agent?.skills ?? [])]
  const skills = await db.all<SkillRow>(
    `select id, scope, name, current_version as currentVersion from skills
     where ${visible} and project = ?3 and (name in (select value from json_each(?4))
       or id in (select skill_id from skill_attachments
         where target_type || '/' || target_key in (select value from json_each(?5))))
     order by name in (select value from json_each(?4)) desc, name, scope desc, id limit ?6`,
    ...[organisationId, memberId, project],
    JSON.stringify(references.map(({ name }) => name)),
    JSON.stringify(targets),
    maxSkills,
  )
  const ids = JSON.stringify(skills.map(({ id }) => id))
  const attachments = await loadAttachments(db, ids, targets)
  const pinned = [...references, ...attachments].flatMap(({ version }) => version ?? [])
  const versions = await loadVersions(db, ids, pinned)
  return skills.map((skill) => ({
    ...skill,
    versions: versions.filter(({ skillId }) => skillId === skill.id),
    attachments: attachments.filter(({ skillId }) => skillId === skill.id),
  }))
}

const loadAttachments = (db: Db, ids: string, targets: string[]): Promise<AttachmentRow[]> =>
  db.all<AttachmentRow>(
    `select skill_id as skillId, target_type as targetType, target_key as targetKey, version
     from skill_attachments where skill_id in (select value from json_each(?))
       and target_type || '/' || target_key in (select value from json_each(?))`,
    ids,
    JSON.stringify(targets),
  )

/** The current ones, and whichever somebody names. */
async function loadVersions(db: Db, ids: string, pinned: number[]): Promise<SkillVersion[]> {
  const rows = await db.all<VersionRow>(
    `select ${versionColumns} from skill_versions where skill_id in (select value from json_each(?1))
       and (version in (select value from json_each(?2))
         or version = (select current_version from skills where id = skill_id))`,
    ids,
    JSON.stringify(pinned),
  )
  return rows.map(versionOf)
}
