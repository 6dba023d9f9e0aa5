import type { Agent, AgentPut } from '../../contract/agent.ts'
import { AppError } from '../../contract/error.ts'
import { modelRows, parseModel } from '../../contract/models.ts'
import type { Clock, Crypto, Db } from '../ports.ts'
import { storeAgent } from '../registry/agents/agents.ts'
import { type Limited, mustMayUsePlace, placeOf } from '../registry/place.ts'
import type { Caller } from '../session/record/caller.ts'

export interface PutAgentPorts {
  db(): Db
  crypto: Pick<Crypto, 'random' | 'sha256'>
  now: Clock
  config: { extraModels: readonly string[] }
}

type Putter = Pick<Caller, 'organisationId' | 'memberId' | 'keyId' | 'scopes'> & Limited

/** Stores an agent or the next revision of it. Whatever its spelling, the model table's own id is stored. */
export async function putAgent(
  ports: PutAgentPorts,
  caller: Putter,
  input: AgentPut,
): Promise<Agent> {
  mustMayUsePlace(caller, input.project)
  mustMayLoosen(caller, input)
  const { project, scope, name, model: wanted, ...rest } = input
  const models = modelRows(ports.config.extraModels)
  const definition = { ...rest, model: wanted && parseModel(wanted, models).id }
  const place = placeOf(caller, { project, scope })
  const { keyId } = caller
  return await storeAgent(ports.db(), ports.crypto, ports.now(), { place, name, definition, keyId })
}

/** An override can open what a category asks for by default. Policies are for admins to loosen, and so is this. */
function mustMayLoosen({ scopes = [] }: Putter, { mode, permissions }: AgentPut): void {
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
