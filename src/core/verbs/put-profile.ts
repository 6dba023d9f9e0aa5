import { canonicalJson } from '../../contract/canonical.ts'
import { AppError, type ErrorDetail } from '../../contract/error.ts'
import { findModel, modelRows, nearestModels } from '../../contract/models.ts'
import type { Profile, ProfileDefinition, ProfilePut } from '../../contract/profile.ts'
import { mustMayUsePlace, placeOf } from '../registry/place.ts'
import { findProfile, storeProfile } from '../registry/agents/profiles.ts'
import type { Caller } from '../session/record/caller.ts'
import { mustBePromoted } from './promote-revision.ts'
import type { PutAgentPorts } from './put-agent.ts'

/** Stores a profile or the next revision of it. Whatever the spelling, the model table's own ids are stored. */
export async function putProfile(
  ports: PutAgentPorts,
  caller: Caller,
  { project, scope, name, ...given }: ProfilePut,
): Promise<Profile> {
  mustMayUsePlace(caller, project)
  const definition = withModelIds(given, ports.config.extraModels)
  const place = placeOf(caller, { project, scope })
  if (scope === 'project')
    await mustBePromoted(ports, caller, {
      ...{ kind: 'profile', project, name },
      sha256: await ports.crypto.sha256(canonicalJson(definition)),
      async current() {
        const found = await findProfile(ports.db(), place, name)
        return found?.archivedAt === null ? found.sha256 : null
      },
    })
  const { keyId } = caller
  return await storeProfile(ports.db(), ports.crypto, ports.now(), {
    place,
    name,
    definition,
    keyId,
  })
}

/** Every unknown one is named. */
function withModelIds(given: ProfileDefinition, extraModels: readonly string[]): ProfileDefinition {
  const rows = modelRows(extraModels)
  const unknown: ErrorDetail[] = []
  const idOf = (path: string, text: string): string => {
    const found = findModel(text, rows)
    if (!found)
      unknown.push({
        path,
        message: `Unknown: did you mean ${nearestModels(text, rows).join(', ')}?`,
      })
    return found?.id ?? text
  }
  const idsOf = (field: 'agents' | 'subagents' | 'phases') =>
    Object.fromEntries(
      Object.entries(given[field]).map(([key, text]) => [key, idOf(`${field}.${key}`, text)]),
    )
  const checked = {
    ...given,
    orchestrator: given.orchestrator && idOf('orchestrator', given.orchestrator),
    ...{ agents: idsOf('agents'), subagents: idsOf('subagents'), phases: idsOf('phases') },
  }
  if (unknown.length === 0) return checked
  throw new AppError(
    'unprocessable',
    'Cannot store the profile: it names models that are not served',
    unknown,
  )
}
