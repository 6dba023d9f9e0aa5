import type { SkillAct, SkillChange, SkillTarget } from '../../../contract/skill.ts'
import type { Db, DbStatement } from '../../ports.ts'
import { hideSecretLikeText } from '../../redaction/secret-like.ts'

export interface Change {
  skillId: string
  act: SkillAct
  /** newest: the one that the batch has just added. */
  version: number | 'newest' | null
  target?: SkillTarget
  actor: string
  reason: string
}

/** Of the skill `?1`. */
export const newestVersion = '(select max(version) from skill_versions where skill_id = ?1)'

/** Behind the statement that it tells of, in one batch: if that has changed no row, nothing is told. */
export function skillChangeStatement(
  now: number,
  { skillId, act, version, target, actor, reason }: Change,
): DbStatement {
  const isNewest = version === 'newest'
  return {
    sql: `insert into skill_changes (skill_id, seq, act, target, actor, reason, created_at, version)
          select ?1, (select coalesce(max(seq), 0) + 1 from skill_changes where skill_id = ?1),
            ?2, ?3, ?4, ?5, ?6, ${isNewest ? newestVersion : '?7'} where changes() > 0`,
    values: [
      ...[skillId, act, target ? JSON.stringify(target) : null, actor],
      ...[hideSecretLikeText(reason), now],
      ...(isNewest ? [] : [version]),
    ],
  }
}

/** Newest first. */
export async function listSkillChanges(
  db: Db,
  skillId: string,
  page: { limit: number; before: number | null },
): Promise<SkillChange[]> {
  const rows = await db.all<Omit<SkillChange, 'target'> & { target: string | null }>(
    `select seq, act, version, target, actor, reason, created_at as createdAt from skill_changes
     where skill_id = ? and seq < ? order by seq desc limit ?`,
    skillId,
    page.before ?? Number.MAX_SAFE_INTEGER,
    page.limit,
  )
  return rows.map(({ target, ...row }) => ({
    ...row,
    target: target === null ? null : (JSON.parse(target) as SkillTarget),
  }))
}
