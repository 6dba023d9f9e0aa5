import type { AgentDefinition } from '../../contract/agent.ts'
import { canonicalJson } from '../../contract/canonical.ts'
import type { SessionCreate } from '../../contract/session.ts'
import { findRunnableAbility, listAbilities } from '../registry/abilities/abilities.ts'
import { type Pin, pinFor } from '../session/pins/pins.ts'
import type { PinnedAbility } from '../session/offers/pinned.ts'
import type { PinContext, Pinner } from './pinner.ts'

/** So many at most, whatever there is. */
const maxOffered = 200

/**
 * The stored abilities that the session's model may run, each in the version that counts now. One that is named and not
 * stored may be in the workspace: whoever runs it is told if it is not.
 */
export const pinAbilities: Pinner = async (context, before) => {
  const wanted = abilitiesToPin(context.input, before)
  if (wanted === null) return []
  const names = wanted === true ? await allNames(context) : wanted
  const pins = await Promise.all(names.slice(0, maxOffered).map((name) => pinOf(context, name)))
  return pins.filter((pin) => pin !== null)
}

/** The session's own word, or that of its agent. Null: it has none. */
export function abilitiesToPin(
  { abilities }: Pick<SessionCreate, 'abilities'>,
  pins: readonly Pin[],
): true | readonly string[] | null {
  if (abilities !== undefined) return abilities
  const agent = pins.find(({ kind }) => kind === 'agent')
  const named = agent && (JSON.parse(agent.content) as Pick<AgentDefinition, 'abilities'>).abilities
  return named !== undefined && named.length > 0 ? named : null
}

/** The project's count before the organisation's. */
async function allNames({ db, organisationId, project }: PinContext): Promise<string[]> {
  const page = { limit: maxOffered, after: null }
  const own = await listAbilities(db, { organisationId, project }, page)
  const shared = await listAbilities(db, { organisationId, project: null }, page)
  return [...new Set([...own, ...shared].map(({ name }) => name))]
}

async function pinOf(context: PinContext, name: string): Promise<Pin | null> {
  const { db, crypto, organisationId, project } = context
  const found = await findRunnableAbility(db, { organisationId, project }, name)
  if (found === null || found.version === null) return null
  const { description, triggers, exclusive_agent, compatible_agents } = found.definition
  const told: PinnedAbility = { description, triggers, exclusive_agent, compatible_agents }
  return pinFor(crypto, {
    ...{ kind: 'ability', id: name, name, revision: found.version },
    content: canonicalJson(told),
  })
}
