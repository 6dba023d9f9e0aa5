import type { SkillPayload, SkillResolution, SkillResolve } from '../../contract/skill.ts'
import type { Db } from '../ports.ts'
import { mustMayUseProject } from '../registry/place.ts'
import { loadRegisteredSkills } from '../registry/skills/load.ts'
import { payloadOfSkills } from '../registry/skills/payload.ts'
import {
  type ResolveQuery,
  resolveRegisteredSkills as resolve,
} from '../registry/skills/resolve.ts'
import type { SkillCaller } from '../registry/skills/rows.ts'

/** Writes nothing. */
export async function resolveSkills(
  db: Db,
  caller: SkillCaller,
  asked: SkillResolve,
): Promise<SkillResolution> {
  mustMayUseProject(caller, asked.project)
  const query = queryOf(asked)
  return resolve(query, await loadRegisteredSkills(db, caller, asked.project, query))
}

/** Without a sandbox nothing has been uploaded. */
export const skillPayload = async (
  db: Db,
  caller: SkillCaller,
  asked: SkillResolve,
): Promise<SkillPayload> => payloadOfSkills(await resolveSkills(db, caller, asked), new Map())

const queryOf = ({
  scope,
  skills,
  agent,
  workflow,
  phase,
  adapter,
}: SkillResolve): ResolveQuery => ({
  scope,
  skills,
  agent: agent ?? null,
  workflow: workflow ?? null,
  phase: phase ?? null,
  adapter: adapter ?? null,
})
