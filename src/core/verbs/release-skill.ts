import type { SkillProposal } from '../../contract/skill-proposal.ts'
import type {
  Skill,
  SkillStateChange,
  SkillVersion,
  SkillVersionAdd,
} from '../../contract/skill.ts'
import type { Crypto } from '../ports.ts'
import { applyProposal } from '../registry/skills/proposal-acts.ts'
import { viewProposal } from '../registry/skills/proposals.ts'
import { findSkillVersion, loadSkill, mustFindSkillVersion } from '../registry/skills/skills.ts'
import {
  addSkillVersion,
  changeVersionState,
  mustMayActivateVersion,
  checkedSkillVersion,
  type VersionCaller,
} from '../registry/skills/versions.ts'
import type { Caller } from '../session/record/caller.ts'
import { mustBePromoted, type PromotionPorts } from './promote-revision.ts'

/**
 * The three ways by which a version of a skill becomes current for the first time. Each asks the gates of its project. A
 * draft needs none, and neither does a roll-back, which leads to what was released before.
 */

interface Ports extends PromotionPorts {
  crypto: Pick<Crypto, 'random' | 'sha256'>
}
type Releaser = Caller & VersionCaller

export async function releaseSkillVersion(
  ports: Ports,
  caller: Releaser,
  skillId: string,
  input: SkillVersionAdd,
): Promise<SkillVersion> {
  const db = ports.db()
  if (input.activate) {
    const skill = await loadSkill(db, caller, skillId)
    const { description = skill.description, compatibility, source } = input
    const { sha256 } = await checkedSkillVersion(ports.crypto, {
      description,
      compatibility,
      source,
    })
    await mustBePromotedSkill(ports, caller, skill, sha256)
  }
  return await addSkillVersion(db, ports.crypto, ports.now(), caller, skillId, input)
}

export async function releaseSkillDraft(
  ports: Ports,
  caller: Releaser,
  key: { skillId: string; version: number },
  change: SkillStateChange,
): Promise<SkillVersion> {
  const db = ports.db()
  if (change.state === 'active') {
    const skill = await loadSkill(db, caller, key.skillId)
    const { sha256 } = await mustFindSkillVersion(db, skill, key.version)
    await mustBePromotedSkill(ports, caller, skill, sha256)
  }
  return await changeVersionState(db, ports.now(), caller, key, change)
}

export async function releaseSkillProposal(
  ports: Ports,
  caller: Releaser,
  proposalId: string,
  reason: string,
): Promise<SkillProposal> {
  const db = ports.db()
  const { skillId, sha256, state } = await viewProposal(db, caller, proposalId)
  if (state === 'approved')
    await mustBePromotedSkill(ports, caller, await loadSkill(db, caller, skillId), sha256)
  return await applyProposal(db, ports.now(), caller, proposalId, reason)
}

async function mustBePromotedSkill(
  ports: Ports,
  caller: Releaser,
  skill: Skill,
  sha256: string,
): Promise<void> {
  const { project, scope, name, currentVersion } = skill
  mustMayActivateVersion(caller, skill)
  if (scope === 'personal') return
  await mustBePromoted(ports, caller, {
    ...{ kind: 'skill', project, name, sha256 },
    current: async () =>
      (await findSkillVersion(ports.db(), skill, currentVersion))?.sha256 ?? null,
  })
}
