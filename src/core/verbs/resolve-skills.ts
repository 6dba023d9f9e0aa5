import { AppError } from '../../contract/error.ts'
import type {
  SkillPayload,
  SkillPayloadAsk,
  SkillResolution,
  SkillResolve,
} from '../../contract/skill.ts'
import type { Db } from '../ports.ts'
import { mustMayUsePlace } from '../registry/place.ts'
import { loadRegisteredSkills } from '../registry/skills/load.ts'
import { payloadOfSkills, type UploadedFile } from '../registry/skills/payload.ts'
import {
  type ResolveQuery,
  resolveRegisteredSkills as resolve,
} from '../registry/skills/resolve.ts'
import type { SkillCaller } from '../registry/skills/skills.ts'
import type { Caller } from '../session/record/caller.ts'
import type { SkillsApi } from '../session/skills/skills.ts'
import type { SkillText } from '../session/skills/texts.ts'

/** Writes nothing. */
export async function resolveSkills(
  db: Db,
  caller: SkillCaller,
  asked: SkillResolve,
): Promise<SkillResolution> {
  mustMayUsePlace(caller, asked.project)
  const query = queryOf(asked)
  return resolve(query, await loadRegisteredSkills(db, caller, asked.project, query))
}

export interface PayloadPorts {
  db(): Db
  ids: { check(id: string): Promise<boolean> }
  session(id: string): { skills: Pick<SkillsApi, 'texts'> }
}

/** Without a session nothing has been read from a workspace. */
export async function resolvedSkillPayload(
  ports: PayloadPorts,
  caller: SkillCaller & Caller,
  { session, ...asked }: SkillPayloadAsk,
): Promise<SkillPayload> {
  const texts = session === undefined ? [] : await sessionTexts(ports, caller, session)
  const resolved = await resolveSkills(ports.db(), caller, asked)
  return payloadOfSkills(resolved, new Map(texts.map((text) => [text.path, uploadOf(text)])))
}

async function sessionTexts(ports: PayloadPorts, caller: Caller, id: string): Promise<SkillText[]> {
  if (!(await ports.ids.check(id))) throw new AppError('not_found', 'No such session')
  return await ports.session(id).skills.texts(caller)
}

const uploadOf = ({ found, content }: SkillText): UploadedFile =>
  found === 'file' ? { state: 'file', content: content ?? '' } : { state: found }

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
