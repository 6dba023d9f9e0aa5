import { z } from 'zod'
import type { Memory } from '../../contract/memory.ts'
import { RegistryScope } from '../../contract/registry-scope.ts'
import type { SessionCreate } from '../../contract/session.ts'
import { memoriesById, newestMemories } from '../registry/memories/memories.ts'
import { searchMemories } from '../registry/memories/search.ts'
import { placeOf } from '../registry/place.ts'
import { textOfMemories } from '../session/manifest/memories.ts'
import { type Pin, pinFor } from '../session/pins/pins.ts'
import type { PinContext, Pinner } from './pinner.ts'

/** More than these are not looked at, however much room there is. */
const maxGiven = 50
const charactersPerToken = 4

/** What the session is given to remember, the best or newest first, as much as fits into its tokens. */
export const pinMemories: Pinner = async (context, before) => {
  const scopes = memoryScopesToPin(context.input, before)
  if (scopes.length === 0) return []
  const { maxTokens = defaultTokens } = context.input.memory ?? {}
  const found = maxTokens === 0 ? [] : await memoriesFor(context, scopes)
  return fitting(await Promise.all(found.map((one) => pinOf(context, one))), maxTokens)
}

const defaultTokens = 2000

/** The session's own word, or that of the agent it is started with. None: it has no memory. */
export function memoryScopesToPin(
  { memory }: Pick<SessionCreate, 'memory'>,
  pins: readonly Pin[],
): RegistryScope[] {
  const agent = pins.find(({ kind }) => kind === 'agent')
  const scopes = memory?.scopes ?? (agent ? scopesOfAgent(agent.content) : [])
  return [...new Set(scopes)].toSorted()
}

const AgentMemory = z.object({ memory: z.object({ scopes: z.array(RegistryScope) }) })

function scopesOfAgent(definition: string): RegistryScope[] {
  return AgentMemory.safeParse(JSON.parse(definition)).data?.memory.scopes ?? []
}

async function memoriesFor(context: PinContext, scopes: RegistryScope[]): Promise<Memory[]> {
  const { db, project, input } = context
  const places = scopes.map((scope) => placeOf(context, { project, scope }))
  const query = input.memory?.query
  if (query === undefined) return await newestMemories(db, places, maxGiven)
  const search = { places, query, type: null, limit: maxGiven, path: 'memory.query' }
  const hits = await searchMemories(db, search)
  const ids = hits.map(({ id }) => id)
  return await memoriesById(db, places, ids)
}

/** In their order, as the model is told them; one that does not fit is left out, and a smaller one behind it may still fit. */
function fitting(pins: readonly Pin[], maxTokens: number): Pin[] {
  const room = maxTokens * charactersPerToken
  return pins.reduce<Pin[]>((given, pin) => {
    const more = [...given, pin]
    return textOfMemories(more).length > room ? given : more
  }, [])
}

const pinOf = (
  { crypto }: PinContext,
  { id, title, revision, scope, type, content }: Memory,
): Promise<Pin> => {
  const given = JSON.stringify({ scope, type, title, content })
  // Pins are seen by whoever sees the session.
  const name = scope === 'personal' ? id : title
  return pinFor(crypto, { kind: 'memory', id, name, revision, content: given })
}
