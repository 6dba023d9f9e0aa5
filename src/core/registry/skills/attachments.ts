import { AppError } from '../../../contract/error.ts'
import type { SkillDetails, SkillTarget } from '../../../contract/skill.ts'
import type { Db } from '../../ports.ts'
import { skillChangeStatement } from './changes.ts'
import { loadSkill, mustFindSkillVersion, viewSkill } from './skills.ts'
import { mustMayActivateVersion, type VersionCaller } from './versions.ts'

const maxAttachments = 200

/** Whoever works for the target gets the skill from now on. The same target again: its version is replaced. */
export async function attachSkill(
  db: Db,
  now: number,
  caller: VersionCaller,
  { skillId, ...target }: { skillId: string } & SkillTarget,
  version: number | null,
): Promise<SkillDetails> {
  const skill = await loadSkill(db, caller, skillId)
  mustMayActivateVersion(caller, skill)
  if (version !== null) await mustFindSkillVersion(db, skill, version)
  const { targetType, targetKey } = target
  await db.batch([
    {
      sql: `insert into skill_attachments (skill_id, target_type, target_key, version, created_by, created_at)
            select ?1, ?2, ?3, ?4, ?5, ?6
            where (select count(*) from skill_attachments where skill_id = ?1) < ?7
              or exists (select 1 from skill_attachments
                where skill_id = ?1 and target_type = ?2 and target_key = ?3)
            on conflict (skill_id, target_type, target_key) do update
              set version = excluded.version, created_by = excluded.created_by, created_at = excluded.created_at
              where version is not excluded.version`,
      values: [skillId, targetType, targetKey, version, caller.keyId, now, maxAttachments],
    },
    skillChangeStatement(now, {
      ...{ skillId, act: 'attached', version, target: { targetType, targetKey } },
      ...{ actor: caller.keyId, reason: '' },
    }),
  ])
  const after = await viewSkill(db, caller, skillId)
  if (after.attachments.some((one) => isTarget(one, target))) return after
  throw new AppError('wrong_state', `Cannot attach: a skill has at most ${maxAttachments} targets`)
}

/** What is not attached stays so. */
export async function detachSkill(
  db: Db,
  now: number,
  caller: VersionCaller,
  { skillId, targetType, targetKey }: { skillId: string } & SkillTarget,
): Promise<SkillDetails> {
  const skill = await loadSkill(db, caller, skillId)
  mustMayActivateVersion(caller, skill)
  await db.batch([
    {
      sql: 'delete from skill_attachments where skill_id = ? and target_type = ? and target_key = ?',
      values: [skillId, targetType, targetKey],
    },
    skillChangeStatement(now, {
      ...{ skillId, act: 'detached', version: null, target: { targetType, targetKey } },
      ...{ actor: caller.keyId, reason: '' },
    }),
  ])
  return await viewSkill(db, caller, skillId)
}

const isTarget = (one: SkillTarget, { targetType, targetKey }: SkillTarget): boolean =>
  one.targetType === targetType && one.targetKey === targetKey
