// An agent's way to memories: those of its session's project and scopes, and no others. Repeatable: what is saved carries
// the operation's id, so that however often a call runs there is one memory, or one revision.

import {
  memoryGetTool,
  memorySaveTool,
  memorySearchTool,
  memoryUpdateTool,
} from '../../../../contract/tools.ts'
import { AppError } from '../../../../contract/error.ts'
import type { Memory } from '../../../../contract/memory.ts'
import type { RegistryScope } from '../../../../contract/registry-scope.ts'
import { loadMemory, saveMemory, updateMemory } from '../../../registry/memories/memories.ts'
import { searchMemories } from '../../../registry/memories/search.ts'
import { type Place, placeOf } from '../../../registry/place.ts'
import { type CallContext, gatewayTool } from './tool.ts'

export const memorySearch = gatewayTool({
  definition: memorySearchTool,
  repeatable: true,
  async run({ query, type = null, limit }, call) {
    const places = call.memory.scopes.map((scope) => placeIn(call, scope))
    const items = await searchMemories(call.db(), { places, query, type, limit })
    const lines = items.map(
      (hit) => `- ${hit.id} (${hit.type}, ${hit.scope}) ${hit.title}: ${hit.snippet}`,
    )
    const result = lines.length === 0 ? 'Nothing is remembered about this' : lines.join('\n')
    return { success: true, result, data: { items } }
  },
})

export const memoryGet = gatewayTool({
  definition: memoryGetTool,
  repeatable: true,
  async run({ id }, call) {
    const memory = await ownMemory(call, id)
    const { title, type, scope, revision, content } = memory
    const result = `# ${title}\n\n(${id}, ${type}, ${scope}, revision ${revision})\n\n${content}`
    return { success: true, result, data: { memory } }
  },
})

export const memorySave = gatewayTool({
  definition: memorySaveTool,
  repeatable: true,
  async run({ scope, ...fields }, call) {
    const { operationId } = call
    const id = `mem_${operationId.slice(-20)}`
    const place = placeIn(call, scope)
    const memory = { id, ...fields, savedBy: call.sessionId, operationId }
    return saved('Remembered', await saveMemory(call.db(), call.now(), place, memory))
  },
})

export const memoryUpdate = gatewayTool({
  definition: memoryUpdateTool,
  repeatable: true,
  async run({ id, ...change }, call) {
    await ownMemory(call, id)
    const saving = { savedBy: call.sessionId, operationId: call.operationId }
    const caller = callerOf(call)
    return saved('Changed', await updateMemory(call.db(), call.now(), caller, id, change, saving))
  },
})

function saved(how: string, memory: Memory) {
  const { id, title, revision } = memory
  const result = `${how} "${title}" as ${id}, revision ${revision}`
  return { success: true, result, data: { memory: { id, title, revision } } }
}

const callerOf = ({ organisationId, memory: { memberId } }: CallContext) => ({
  organisationId,
  memberId,
})

function placeIn(call: CallContext, scope: RegistryScope): Place {
  const { scopes } = call.memory
  if (!scopes.includes(scope))
    throw new AppError(
      'forbidden',
      `This session has no ${scope} memory${scopes.length > 0 ? `: use ${scopes.join(' or ')}` : ''}`,
    )
  return placeOf(callerOf(call), { project: call.project, scope })
}

/** Of another project or scope it is not there, whoever's it is. */
async function ownMemory(call: CallContext, id: string): Promise<Memory> {
  const memory = await loadMemory(call.db(), callerOf(call), id)
  if (memory.project === call.project && call.memory.scopes.includes(memory.scope)) return memory
  throw new AppError('not_found', 'There is no such memory')
}
