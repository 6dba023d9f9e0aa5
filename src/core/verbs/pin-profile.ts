import { AppError } from '../../contract/error.ts'
import { placeOf } from '../registry/place.ts'
import { findProfile, type ProfileRow } from '../registry/agents/profiles.ts'
import { pinFor } from '../session/pins/pins.ts'
import type { PinContext, Pinner } from './pinner.ts'

/** The profile that the session names, else the one of its agent's name; there need be none. */
export const pinProfile: Pinner = async (context, before) => {
  const { profile } = context.input
  const found = profile ? await named(context, profile) : await ofAgent(context, before)
  if (found === null) return []
  const { id, name, revision, definition: content } = found
  return [await pinFor(context.crypto, { kind: 'profile', id, name, revision, content })]
}

type Named = NonNullable<PinContext['input']['profile']>

async function named(context: PinContext, { name, scope }: Named): Promise<ProfileRow> {
  const { db, project } = context
  const found = await findProfile(db, placeOf(context, { project, scope }), name)
  if (found && found.archivedAt === null) return found
  const message = `There is no profile "${name}" of scope ${scope} in project "${project}"`
  throw new AppError('unprocessable', `Cannot start the session: ${message}`, [
    { path: 'profile.name', message },
  ])
}

/** In the scope of the agent: a member's own profile does not change what a project shares. */
async function ofAgent(
  context: PinContext,
  before: Parameters<Pinner>[1],
): Promise<ProfileRow | null> {
  const agent = before.find(({ kind }) => kind === 'agent')
  const { agent: wanted } = context.input
  if (!agent || !wanted) return null
  const scope = 'name' in wanted ? wanted.scope : wanted.resolve.scope
  const place = placeOf(context, { project: context.project, scope })
  const found = await findProfile(context.db, place, agent.name)
  return found?.archivedAt === null ? found : null
}
