// What a registered agent adds to a gate question: who may be sent, and whose overrides count. Overrides only act as the
// policy's evaluation lets them; nothing here allows anything.

import type { Category, Decision, PermissionOverrides } from '../../../contract/permission.ts'
import type { PermissionRecord } from '../../../contract/permission-record.ts'
import { isStricter } from '../../policy/evaluate.ts'
import type { PinnedAgents } from '../pins/agents.ts'

/** OpenCode's tool by which an agent sends a subagent, and the name for one that it has not told yet. */
const sendingTool = 'task'
const untold = 'unknown'

interface Asked {
  tool: string
  input?: unknown
  subagent?: string | undefined
}

/** Why nobody of this session may ask that; null: they may. An agent sends its own subagents, and a subagent nobody. */
export function gateAgentRefusal(agents: PinnedAgents | null, asked: Asked): string | null {
  if (agents === null) return null
  const names = agents.subagents.map(({ name }) => name)
  const { tool, subagent } = asked
  const { name } = agents.agent
  if (subagent !== undefined && (names.length === 0 || ![...names, untold].includes(subagent)))
    return `"${subagent}" is no subagent of "${name}"`
  if (tool !== sendingTool) return null
  if (subagent !== undefined) return `Subagent "${subagent}" may delegate to nobody`
  if (names.includes(sentTo(asked) ?? '')) return null
  const only = `${names.map((one) => `"${one}"`).join(', ')} only`
  return `Agent "${name}" may delegate to ${names.length === 0 ? 'nobody' : only}`
}

function sentTo({ input }: Asked): string | null {
  const { subagent_type: to } = (input ?? {}) as { subagent_type?: unknown }
  return typeof to === 'string' ? to : null
}

/** The session's agent counts whatever the sandbox calls it. A subagent that is not told yet is held to what holds any. */
export function agentOverrides(
  agents: PinnedAgents | null,
  subagent: string | undefined,
): PermissionRecord['overrides'] {
  if (agents === null) return null
  const agent = agents.agent.definition.permissions
  if (subagent === undefined) return { agent, subagent: null }
  const known = agents.subagents.filter(({ name }) => subagent === untold || name === subagent)
  const all = known.map(({ definition }) => definition.permissions)
  return { agent, subagent: all.reduce(strictest, {}) }
}

function strictest(one: PermissionOverrides, other: PermissionOverrides): PermissionOverrides {
  const merged = { ...one }
  for (const [category, decision] of Object.entries(other) as [Category, Decision][]) {
    const known = merged[category]
    if (known === undefined || isStricter(decision, known)) merged[category] = decision
  }
  return merged
}
