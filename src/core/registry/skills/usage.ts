import type { SkillUsage } from '../../../contract/skill-usage.ts'
import type { Db } from '../../ports.ts'
import type { SkillCaller } from './skills.ts'

/** Of a skill that was loaded for its caller, newest first. A key for own sessions sees the uses in these alone. */
export async function listSkillUsage(
  db: Db,
  { organisationId, memberId, limits }: SkillCaller,
  skillId: string,
  page: { limit: number; before: { createdAt: number; id: string } | null },
): Promise<SkillUsage[]> {
  return await db.all<SkillUsage>(
    `select id, skill_id as skillId, version, session_id as sessionId, run_id as runId, outcome, actor, note,
       created_at as createdAt
     from skill_usage as u
     where organisation_id = ?1 and skill_id = ?2 and (created_at, id) < (?3, ?4)
       and (?5 is null or exists (select 1 from sessions where id = u.session_id and member_id = ?5))
     order by created_at desc, id desc limit ?6`,
    organisationId,
    skillId,
    page.before?.createdAt ?? Number.MAX_SAFE_INTEGER,
    page.before?.id ?? '',
    limits?.ownSessions ? memberId : null,
    page.limit,
  )
}
