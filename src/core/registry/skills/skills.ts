// Skills of organisations: what they are called, and which there are. Their record is in libSQL; versions.ts has what they
// say, attachments.ts who gets them, resolve.ts what a session gets in the end.

import type { Skill, SkillDetails, SkillQuery, SkillUpsert } from '../../../contract/skill.ts'
import type { Crypto, Db } from '../../ports.ts'
import { limitValues, mustMayUseProject, placeOf } from '../place.ts'
import {
  findSkillVersion,
  listSkillAttachments,
  loadSkill,
  type SkillCaller,
  skillColumns,
  visible,
} from './rows.ts'

/** One row per place and name: the same name again is the same skill, with the newest description. */
export async function putSkill(
  db: Db,
  crypto: Pick<Crypto, 'random'>,
  now: number,
  caller: SkillCaller,
  { name, description, ...where }: SkillUpsert,
): Promise<Skill> {
  mustMayUseProject(caller, where.project)
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
