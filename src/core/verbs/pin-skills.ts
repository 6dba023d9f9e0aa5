import type { AgentDefinition } from '../../contract/agent.ts'
import { canonicalJson } from '../../contract/canonical.ts'
import { AppError, type ErrorDetail } from '../../contract/error.ts'
import type {
  ResolvedSkill,
  SkillPayload,
  SkillPayloadItem,
  SkillReference,
  SkillResolution,
} from '../../contract/skill.ts'
import type { Db } from '../ports.ts'
import { loadAgentRow } from '../registry/agents/agents.ts'
import { loadRegisteredSkills } from '../registry/skills/load.ts'
import { payloadOfSkills } from '../registry/skills/payload.ts'
import { type ResolveQuery, resolveRegisteredSkills } from '../registry/skills/resolve.ts'
import type { PinnedSkill } from '../session/pins/skills.ts'
import { type Pin, pinFor } from '../session/pins/pins.ts'
import type { PinContext, Pinner } from './pinner.ts'

/**
 * The skills that a session names, those of its agent, and what is attached to the agent, to the phases that it works in
 * and to OpenCode. A session that names neither gets none. What it names itself must be there; whatever else cannot be
 * given is left out.
 */
export const pinSkills: Pinner = async (context, before) => {
  const { db, project, input } = context
  const agents = before.filter(({ kind }) => kind === 'agent' || kind === 'subagent')
  if (input.skills === undefined && agents.length === 0) return []
  const queries = [
    { ...nothing, skills: input.skills ?? [] },
    ...(await Promise.all(agents.map((pin) => queryFor(db, pin)))),
    { ...nothing, forms: [...askedForms(input), ...agents.flatMap(formsOf)] },
    { ...nothing, adapter: 'opencode' },
  ]
  const found = queries.map(async (query) =>
    resolveRegisteredSkills(query, await loadRegisteredSkills(db, context, project, query)),
  )
  const payload = payloadOfSkills(joined(await Promise.all(found)), new Map())
  mustHaveNamed(payload, input.skills ?? [])
  const given = payload.items.filter(({ content, reason }) => content !== null || isLater(reason))
  return await Promise.all(given.map((item) => pinOf(context, item)))
}

const nothing: ResolveQuery = {
  ...{ scope: 'project', skills: [], agent: null },
  ...{ workflow: null, phase: null, adapter: null },
}

/** What the agent's definition names, as it was pinned, and what is attached to it, in its own scope. */
async function queryFor(db: Db, { kind, id, name, content }: Pin): Promise<ResolveQuery> {
  const { scope } = await loadAgentRow(db, id)
  const { skills } = JSON.parse(content) as Pick<AgentDefinition, 'skills'>
  const mode = kind === 'subagent' ? 'subagent' : 'agent'
  return { ...nothing, scope, agent: { name, mode, skills: skills.map(skillReferenceOf) } }
}

/** The phase for which an agent was looked for. */
function askedForms({ agent }: PinContext['input']): string[] {
  const { workflow, phase } = agent && 'resolve' in agent ? agent.resolve : {}
  if (phase === undefined) return workflow === undefined ? [] : [workflow]
  return [workflow === undefined ? phase : `${workflow.split(':')[0]}:${phase}`]
}

/** What an agent is for, as its definition says. */
const formsOf = ({ content }: Pin): string[] =>
  (JSON.parse(content) as Pick<AgentDefinition, 'workflows'>).workflows

/** A version is a text there; one that is no number names none of ours. */
export const skillReferenceOf = ({
  name,
  version,
}: AgentDefinition['skills'][number]): SkillReference => ({
  name,
  version: version === null ? null : /^[1-9]\d{0,8}$/.test(version) ? Number(version) : 2 ** 31,
})

/** OpenCode shows all skills to all of its agents: each is there once, where it was first seen. */
function joined(resolutions: readonly SkillResolution[]): SkillResolution {
  const skills: ResolvedSkill[] = []
  for (const skill of resolutions.flatMap((one) => one.skills)) {
    const known = skills.find(({ skillId }) => skillId === skill.skillId)
    if (known) known.sources.push(...skill.sources)
    else if (!skills.some(({ name }) => name === skill.name)) skills.push(skill)
  }
  return { skills, skipped: resolutions.flatMap(({ skipped }) => skipped) }
}

function pinOf(
  { crypto }: PinContext,
  { skillId: id, name, version: revision, source, ...said }: SkillPayloadItem,
): Promise<Pin> {
  const { description, compatibility, content } = said
  const skill: PinnedSkill = {
    ...{ description, compatibility, content: content ?? '' },
    ...(source.kind === 'path' && { path: source.path }),
  }
  return pinFor(crypto, { kind: 'skill', id, name, revision, content: canonicalJson(skill) })
}

/** Its text is in the workspace: the sandbox reads it. */
const isLater = (reason: SkillPayloadItem['reason']): boolean => reason === 'path_not_uploaded'

/** Whoever names a skill wants it: better refused than silently without. */
function mustHaveNamed({ items, skipped }: SkillPayload, named: readonly SkillReference[]): void {
  const without = items.filter(({ reason }) => reason !== null && !isLater(reason))
  const missing = [
    ...skipped,
    ...without.flatMap(({ sources, ...item }) => sources.map((source) => ({ ...item, source }))),
  ].filter(({ source }) => source.kind === 'request')
  const details = missing.map(({ name, scope, reason, source }): ErrorDetail => {
    const at = named.findIndex(
      (one) =>
        one.name === name &&
        (one.scope ?? 'project') === scope &&
        (one.version ?? null) === source.version,
    )
    return { path: `skills.${at}`, message: `Cannot be given: ${reason}` }
  })
  if (details.length > 0)
    throw new AppError(
      'unprocessable',
      `Cannot begin with ${missing.map(({ name, reason }) => `"${name}" (${reason})`).join(', ')}`,
      details,
    )
}
