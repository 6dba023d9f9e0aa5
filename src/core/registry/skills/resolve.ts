// Which skills somebody gets who works as an agent, in a phase, with an adapter. Pure: rows in, an answer out, and the order
// in which rows come changes nothing. What cannot be given is in the answer with its reason; nothing is raised.

import type { RegistryScope } from '../../../contract/registry-scope.ts'
import type {
  ResolvedSkill,
  SkillReason,
  SkillReference,
  SkillResolution,
  SkillSourceOf,
  SkillState,
  SkillTarget,
  SkillVersion,
  SkippedSkill,
} from '../../../contract/skill.ts'

/** One skill as resolution needs it: those of its versions and attachments that may count. */
export interface RegisteredSkill {
  id: string
  scope: RegistryScope
  name: string
  currentVersion: number | null
  versions: readonly SkillVersion[]
  attachments: readonly (SkillTarget & { version: number | null })[]
}

export interface ResolveQuery {
  /** Of the agent, and of names that say no scope of their own. Neither scope stands in for the other. */
  scope: RegistryScope
  /** Asked for by name, before everything else. */
  skills: readonly SkillReference[]
  agent: {
    name: string
    mode: 'agent' | 'subagent'
    skills: readonly SkillReference[]
  } | null
  workflow: string | null
  phase: string | null
  /** More phases, as definitions of agents name them: "sdd:apply", or "apply". */
  forms?: readonly string[]
  adapter: string | null
}

/** By order: what is asked for, the agent's definition, attachments to agent, phase and adapter. */
export function resolveRegisteredSkills(
  query: ResolveQuery,
  registered: readonly RegisteredSkill[],
): SkillResolution {
  const resolved = new Map<string, ResolvedSkill>()
  const skipped: SkippedSkill[] = []
  for (const candidate of candidatesOf(query, registered)) {
    const { skill, wanted, source, name, scope } = candidate
    const found = skill ? versionFor(skill, wanted) : ('skill_missing' as const)
    const known = skill && resolved.get(skill.id)
    if (typeof found === 'string')
      skipped.push({ name, scope, version: wanted, reason: found, source })
    else if (known) known.sources.push(source)
    else if (isTaken(resolved, name))
      skipped.push({ name, scope, version: wanted, reason: 'name_taken', source })
    else resolved.set(found.skillId, { ...shown(found, candidate), sources: [source] })
  }
  return { skills: [...resolved.values()], skipped }
}

interface Candidate {
  skill: RegisteredSkill | undefined
  name: string
  scope: RegistryScope
  /** null: the current one. */
  wanted: number | null
  source: SkillSourceOf
}

function candidatesOf(query: ResolveQuery, registered: readonly RegisteredSkill[]): Candidate[] {
  const { agent } = query
  const named = (
    kind: 'request' | 'definition',
    key: string,
    references: readonly SkillReference[],
  ) => references.map((reference) => namedCandidate(query, registered, reference, { kind, key }))
  return [
    ...named('request', '', query.skills),
    ...(agent ? named('definition', agent.name, agent.skills) : []),
    ...resolvedSkillTargets(query).flatMap((target) => attachedCandidates(registered, target)),
  ]
}

function namedCandidate(
  query: ResolveQuery,
  registered: readonly RegisteredSkill[],
  { name, scope = query.scope, version = null }: SkillReference,
  source: Pick<SkillSourceOf, 'kind' | 'key'>,
): Candidate {
  const skill = registered.find((one) => one.name === name && one.scope === scope)
  return { skill, name, scope, wanted: version, source: { ...source, version } }
}

interface Target extends SkillTarget {
  /** Whose skills count for it, in order. */
  scopes: readonly RegistryScope[]
}

/** In the order in which they count. An agent is one of its scope; phases and adapters are everybody's. */
export function resolvedSkillTargets({
  scope,
  agent,
  workflow,
  phase,
  forms = [],
  adapter,
}: Omit<ResolveQuery, 'skills'>): Target[] {
  const both: readonly RegistryScope[] = ['project', 'personal']
  const target = (
    targetType: SkillTarget['targetType'],
    targetKey: string | null,
    scopes = both,
  ): Target[] => (targetKey === null ? [] : [{ targetType, targetKey, scopes }])
  const asked = phase === null ? [] : phaseKeys(workflow, phase)
  const phases = new Set([...asked, ...forms.flatMap(formKeys)])
  return [
    ...(agent ? target(agent.mode, agent.name, [scope]) : []),
    ...[...phases].flatMap((key) => target('workflow-phase', key)),
    ...target('provider-adapter', adapter),
  ]
}

/** As it was asked for first. What the phase apply leaves behind is called apply-progress. */
function phaseKeys(workflow: string | null, phase: string): string[] {
  const both = ['apply', 'apply-progress']
  const spelled = both.includes(phase) ? [phase, ...both.filter((one) => one !== phase)] : [phase]
  return [...(workflow === null ? [] : spelled.map((one) => `${workflow}:${one}`)), ...spelled]
}

function formKeys(form: string): string[] {
  const [first = '', phase] = form.split(':')
  return phase === undefined ? phaseKeys(null, first) : phaseKeys(first, phase)
}

function attachedCandidates(
  registered: readonly RegisteredSkill[],
  { targetType, targetKey, scopes }: Target,
): Candidate[] {
  const rank = ({ scope }: RegisteredSkill) => scopes.indexOf(scope)
  const attached = registered.flatMap((skill) =>
    skill.attachments
      .filter((one) => one.targetType === targetType && one.targetKey === targetKey)
      .map(({ version }) => ({ skill, version })),
  )
  return attached
    .filter(({ skill }) => scopes.includes(skill.scope))
    .toSorted((a, b) => rank(a.skill) - rank(b.skill) || compare(a.skill.name, b.skill.name))
    .map(({ skill, version }) => ({
      ...{ skill, name: skill.name, scope: skill.scope, wanted: version },
      source: { kind: targetType, key: targetKey, version },
    }))
}

/** The same everywhere, whatever the language of the machine. */
const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

const isTaken = (resolved: ReadonlyMap<string, ResolvedSkill>, name: string): boolean =>
  [...resolved.values()].some((one) => one.name === name)

/** Its version that may be given, or why none may. */
function versionFor(
  { currentVersion, versions }: RegisteredSkill,
  wanted: number | null,
): SkillVersion | SkillReason {
  const number = wanted ?? currentVersion
  if (number === null) return 'no_current_version'
  const found = versions.find(({ version }) => version === number)
  if (!found) return 'version_missing'
  return found.state === 'active' ? found : reasonOf[found.state]
}

const reasonOf: Record<Exclude<SkillState, 'active'>, SkillReason> = {
  draft: 'version_draft',
  deprecated: 'version_deprecated',
  archived: 'version_archived',
}

const shown = (
  { skillId, version, sha256, description, compatibility, source }: SkillVersion,
  { name, scope }: Candidate,
): Omit<ResolvedSkill, 'sources'> => ({
  ...{ skillId, name, scope, version, sha256, description, compatibility, source },
})
