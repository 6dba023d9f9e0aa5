import type { Agent, AgentDefinition, AgentPlace, AgentPut } from '../../contract/agent.ts'
import { canonicalJson } from '../../contract/canonical.ts'
import { AppError } from '../../contract/error.ts'
import { modelRows, parseModel } from '../../contract/models.ts'
import type { Crypto } from '../ports.ts'
import { storeAgent, storeShippedAgents } from '../registry/agents/agents.ts'
import { findAgent } from '../registry/agents/agents.ts'
import { shippedAgents } from '../registry/agents/shipped.ts'
import { mustMayUsePlace, type Place, placeOf } from '../registry/place.ts'
import type { Caller } from '../session/record/caller.ts'
import { mustBePromoted, type PromotionPorts } from './promote-revision.ts'

export interface PutAgentPorts extends PromotionPorts {
  crypto: Pick<Crypto, 'random' | 'sha256'>
  config: { extraModels: readonly string[] }
}

/** Stores an agent or the next revision of it. Whatever its spelling, the model table's own id is stored. */
export async function putAgent(
  ports: PutAgentPorts,
  caller: Caller,
  input: AgentPut,
): Promise<Agent> {
  mustMayUsePlace(caller, input.project)
  mustMayLoosen(caller, input)
  const { project, scope, name, model: wanted, ...rest } = input
  const models = modelRows(ports.config.extraModels)
  const definition = { ...rest, model: wanted && parseModel(wanted, models).id }
  const place = placeOf(caller, { project, scope })
  await mustBePromotedAgent(ports, caller, place, { name, definition })
  const { keyId } = caller
  return await storeAgent(ports.db(), ports.crypto, ports.now(), { place, name, definition, keyId })
}

/** What is one's own needs no gate: nobody else gets it. */
async function mustBePromotedAgent(
  ports: PutAgentPorts,
  caller: Caller,
  place: Place,
  { name, definition }: { name: string; definition: AgentDefinition },
): Promise<void> {
  if (place.scope === 'personal') return
  await mustBePromoted(ports, caller, {
    ...{ kind: 'agent', project: place.project, name },
    sha256: await ports.crypto.sha256(canonicalJson(definition)),
    async current() {
      const found = await findAgent(ports.db(), place, name)
      return found?.archivedAt === null ? found.sha256 : null
    },
  })
}

/** What a release brings, as agents of a place. */
export async function putShippedAgents(
  ports: PutAgentPorts,
  caller: Caller,
  wanted: AgentPlace,
): Promise<Agent[]> {
  mustMayUsePlace(caller, wanted.project)
  const place = placeOf(caller, wanted)
  for (const { name, definition } of shippedAgents) {
    const isThere = (await findAgent(ports.db(), place, name)) !== null
    if (!isThere) await mustBePromotedAgent(ports, caller, place, { name, definition })
  }
  const { keyId } = caller
  return await storeShippedAgents(ports.db(), ports.crypto, ports.now(), { place, keyId })
}

/** An override can open what a category asks for by default. Policies are for admins to loosen, and so is this. */
function mustMayLoosen({ scopes = [] }: Caller, { mode, permissions }: AgentPut): void {
  // A subagent's only tighten.
  if (scopes.includes('admin') || mode === 'subagent') return
  const opened = Object.entries(permissions).filter(
    ([category, decision]) =>
      (decision === 'allow' && category !== 'read') ||
      (decision === 'ask' && category === 'secrets'),
  )
  if (opened.length === 0) return
  throw new AppError(
    'forbidden',
    'This API key lacks the scope "admin", which permissions that open a category need',
    opened.map(([category]) => ({
      path: `permissions.${category}`,
      message: 'Must be stricter, or be left out',
    })),
  )
}
