import { canonicalJson } from '../../contract/canonical.ts'
import { AppError, type ErrorDetail } from '../../contract/error.ts'
import type { SkillPayload, SkillPayloadItem, SkillReference } from '../../contract/skill.ts'
import { loadRegistered } from '../registry/skills/load.ts'
import { payloadOf } from '../registry/skills/payload.ts'
import { type ResolveQuery, resolveSkills } from '../registry/skills/resolve.ts'
import type { PinnedSkill } from '../session/manifest/skill-files.ts'
import { type Pin, pinFor } from '../session/pins/pins.ts'
import type { PinContext, Pinner } from './pinner.ts'

/**
 * The skills that a session names, those of its agent, and what is attached to the agent and to OpenCode. A session that
 * names neither gets none. What it names itself must be there; whatever else cannot be given is left out.
 */
export const pinSkills: Pinner = async (context, before) => {
  const query = queryOf(context, before)
  if (query === null) return []
  const { db, project } = context
  const registered = await loadRegistered(db, context, project, query)
  const payload = payloadOf(resolveSkills(query, registered), new Map())
  mustHaveNamed(payload, query.skills)
  const given = payload.items.filter(({ content }) => content !== null)
  return await Promise.all(given.map((item) => pinOf(context, item)))
}

function queryOf({ input: { skills } }: PinContext, _before: readonly Pin[]): ResolveQuery | null {
  if (skills === undefined) return null
  return {
    ...{ scope: 'project', skills, agent: null },
    ...{ workflow: null, phase: null, adapter: 'opencode' },
  }
}

function pinOf(
  { crypto }: PinContext,
  { skillId: id, name, version: revision, description, compatibility, content }: SkillPayloadItem,
): Promise<Pin> {
  const skill: PinnedSkill = { description, compatibility, content: content ?? '' }
  return pinFor(crypto, { kind: 'skill', id, name, revision, content: canonicalJson(skill) })
}

/** Whoever names a skill wants it: better refused than silently without. */
function mustHaveNamed({ items, skipped }: SkillPayload, named: readonly SkillReference[]): void {
  const without = items.filter(({ reason }) => reason !== null)
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
