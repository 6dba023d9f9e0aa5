// What a skill says, version by version. A version is added once and never changed; which one is current, and whether a
// version may be given to sessions, changes only by an act that names who did it and why.

import { canonicalJson } from '../../../contract/canonical.ts'
import { AppError } from '../../../contract/error.ts'
import type { Scope } from '../../../contract/key.ts'
import type {
  Skill,
  SkillRollback,
  SkillState,
  SkillStateChange,
  SkillVersion,
  SkillVersionAdd,
} from '../../../contract/skill.ts'
import type { Crypto, Db, DbStatement } from '../../ports.ts'
import { looksSecret } from '../secret-free.ts'
import { keyAllowsScope } from '../keys.ts'
import { skillChangeStatement, newestVersion } from './changes.ts'
import { loadSkill, mustFindSkillVersion, type SkillCaller } from './skills.ts'

export interface VersionCaller extends SkillCaller {
  scopes?: readonly Scope[]
}

/** What a version says, before it has a number. */
export interface Saying extends Pick<SkillVersion, 'description' | 'compatibility' | 'source'> {
  sha256: string
}

/** Or refuses what must not be stored. */
export async function checkedSkillVersion(
  crypto: Pick<Crypto, 'sha256'>,
  said: Omit<Saying, 'sha256'>,
): Promise<Saying> {
  mustSayNoSecret(said)
  return { ...said, sha256: await crypto.sha256(canonicalJson(said)) }
}

/** Whatever a skill says is read by agents and shown to everybody in the project. */
function mustSayNoSecret(said: Omit<Saying, 'sha256'>): void {
  if (!looksSecret(said)) return
  throw new AppError('unprocessable', 'Cannot store this skill: it seems to contain a credential', [
    { path: 'source', message: 'Take it out, and name the variable that holds it' },
  ])
}

/** The next version. What the newest one says already is that version, as it is by now. */
export async function addSkillVersion(
  db: Db,
  crypto: Pick<Crypto, 'sha256'>,
  now: number,
  caller: VersionCaller,
  skillId: string,
  input: SkillVersionAdd,
): Promise<SkillVersion> {
  const skill = await loadSkill(db, caller, skillId)
  if (input.activate) mustMayActivateVersion(caller, skill)
  const { description = skill.description, compatibility, source } = input
  const saying = await checkedSkillVersion(crypto, { description, compatibility, source })
  const { keyId: actor } = caller
  await db.batch(
    addVersionStatements(now, {
      skillId,
      saying,
      actor,
      ...input,
      ifSql: newestDiffers,
      ifValues: [],
    }),
  )
  return await mustFindSkillVersion(db, skill, await newestSaying(db, skillId, saying.sha256))
}

/** By then others may have added theirs. */
async function newestSaying(db: Db, skillId: string, sha256: string): Promise<number> {
  const [row] = await db.all<{ version: number }>(
    'select max(version) as version from skill_versions where skill_id = ? and sha256 = ?',
    skillId,
    sha256,
  )
  return row?.version ?? 0
}

/** `?1` is the skill, `?2` the hash. An archived version is over, so its text may come again. */
const newestDiffers = `not exists (select 1 from skill_versions where skill_id = ?1 and sha256 = ?2
  and state <> 'archived'
  and version = ${newestVersion})`

interface NewVersion {
  skillId: string
  saying: Saying
  activate: boolean
  actor: string
  reason: string
  /** SQL that must hold for it to be added, over `?1` (the skill), `?2` (the hash) and its own values from `?9` on. */
  ifSql: string
  ifValues: DbStatement['values']
}

/** All or nothing: the version, whether it is current, and who did it. Sent again they change nothing. */
export function addVersionStatements(
  now: number,
  { skillId, saying, activate, actor, reason, ifSql, ifValues }: NewVersion,
): DbStatement[] {
  const { sha256, description, compatibility, source } = saying
  const act = activate ? 'version.activated' : 'version.added'
  return [
    {
      sql: `insert into skill_versions (skill_id, version, state, description, compatibility, source, sha256,
              created_by, created_at)
            select ?1, coalesce(${newestVersion}, 0) + 1,
              ?3, ?4, ?5, ?6, ?2, ?7, ?8 where ${ifSql}`,
      values: [
        ...[skillId, sha256, activate ? 'active' : 'draft', description, compatibility],
        ...[JSON.stringify(source), actor, now, ...ifValues],
      ],
    },
    {
      sql: `update skills set updated_at = ?2, current_version = case when ?3 then ${newestVersion} else current_version end
            where id = ?1 and changes() > 0`,
      values: [skillId, now, activate ? 1 : 0],
    },
    skillChangeStatement(now, { skillId, act, version: 'newest', actor, reason }),
  ]
}

/** What a state may become. Back from deprecated leads a rollback alone. */
const next: Record<SkillState, readonly SkillState[]> = {
  draft: ['active', 'archived'],
  active: ['deprecated'],
  deprecated: ['archived'],
  archived: [],
}

/** A draft that becomes active is the current version from then on. */
export async function changeVersionState(
  db: Db,
  now: number,
  caller: VersionCaller,
  key: { skillId: string; version: number },
  { state, reason }: SkillStateChange,
): Promise<SkillVersion> {
  const skill = await loadSkill(db, caller, key.skillId)
  const found = await mustFindSkillVersion(db, skill, key.version)
  mustMayActivateVersion(caller, skill)
  if (found.state === state) return found
  if (!next[found.state].includes(state)) throw wrongState(found, state)
  await db.batch([
    {
      sql: 'update skill_versions set state = ? where skill_id = ? and version = ? and state = ?',
      values: [state, skill.id, found.version, found.state],
    },
    ...(state === 'active' ? [currentStatement(skill.id, found.version, now)] : []),
    skillChangeStatement(now, {
      ...{ skillId: skill.id, act: actOf[state], version: found.version },
      ...{ actor: caller.keyId, reason },
    }),
  ])
  const changed = await mustFindSkillVersion(db, skill, found.version)
  if (changed.state === state) return changed
  throw wrongState(changed, state)
}

const actOf = {
  active: 'version.activated',
  deprecated: 'version.deprecated',
  archived: 'version.archived',
} as const

/** Behind a statement that must have changed a row. */
const currentStatement = (skillId: string, version: number, now: number): DbStatement => ({
  sql: `update skills set current_version = ?, updated_at = ? where id = ? and changes() > 0`,
  values: [version, now, skillId],
})

/** An earlier version is current again. It must have been active once. */
export async function rollBackVersion(
  db: Db,
  now: number,
  caller: VersionCaller,
  skillId: string,
  { version, reason }: SkillRollback,
): Promise<Skill> {
  const skill = await loadSkill(db, caller, skillId)
  mustMayActivateVersion(caller, skill)
  const target = await mustFindSkillVersion(db, skill, version)
  const isUsable = target.state === 'active' || target.state === 'deprecated'
  if (skill.currentVersion === version && target.state === 'active') return skill
  if (!isUsable || version > (skill.currentVersion ?? 0)) throw noRollback(skill, target)
  await db.batch([
    {
      sql: `update skill_versions set state = 'active'
            where skill_id = ?1 and version = ?2 and state in ('active', 'deprecated')
              and exists (select 1 from skills where id = ?1 and current_version = ?3)`,
      values: [skill.id, version, skill.currentVersion],
    },
    currentStatement(skill.id, version, now),
    skillChangeStatement(now, {
      ...{ skillId: skill.id, act: 'rolled-back', version },
      ...{ actor: caller.keyId, reason },
    }),
  ])
  const after = await loadSkill(db, caller, skillId)
  if (after.currentVersion === version) return after
  throw new AppError('wrong_state', 'Cannot roll back: the current version changed meanwhile', [
    { path: 'version', message: `The current one is ${after.currentVersion}: look at it first` },
  ])
}

/** What a project's agents are told is for those to decide who may approve; what is one's own, for oneself. */
export function mustMayActivateVersion(
  caller: VersionCaller,
  { scope }: Pick<Skill, 'scope'>,
): void {
  if (scope === 'personal' || keyAllowsScope(caller.scopes ?? [], 'approve')) return
  throw new AppError(
    'forbidden',
    'Changing what a project’s agents are told needs a key with the scope "approve": add a draft, or propose it',
  )
}

const wrongState = ({ version, state }: SkillVersion, wanted: SkillState) =>
  new AppError('wrong_state', `Cannot make version ${version} ${wanted}: it is ${state}`, [
    {
      path: 'state',
      message:
        next[state].length > 0 ? `May become ${next[state].join(' or ')}` : 'Add a new version',
    },
  ])

const noRollback = ({ currentVersion }: Skill, { version, state }: SkillVersion) =>
  new AppError(
    'wrong_state',
    `Cannot roll back to version ${version}: it is ${state}, and the current one is ${currentVersion}`,
    [{ path: 'version', message: 'Must be an earlier version that was active' }],
  )
