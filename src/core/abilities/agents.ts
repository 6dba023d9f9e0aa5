import type { AbilityDocument } from '../../contract/ability.ts'

/** How abilities name a session that was started without a registered agent. */
const nobody = 'default'

interface Runner {
  /** Null: OpenCode as it is. */
  agent: string | null
  /** What the agent's own definition names; null: it says nothing. */
  abilities: readonly string[] | null
}

type Restricted = Pick<AbilityDocument, 'exclusive_agent' | 'compatible_agents'> & { name: string }

/**
 * Why this agent may not run the ability; null: it may. The first that says something decides: the agent that has it to
 * itself, the agents that it is for, the abilities that the agent is for.
 */
export function agentRefusesAbility(ability: Restricted, { agent, abilities }: Runner) {
  const { name, exclusive_agent: exclusive, compatible_agents: compatible } = ability
  const who = agent ?? nobody
  if (exclusive !== undefined)
    return exclusive === who ? null : `The ability "${name}" is for the agent "${exclusive}" alone`
  if (compatible !== undefined) {
    const named = compatible.map((one) => `"${one}"`).join(', ') || 'no agent'
    return compatible.includes(who) ? null : `The ability "${name}" is for ${named}, not "${who}"`
  }
  if (abilities === null || abilities.includes(name)) return null
  return `The agent "${who}" has no ability "${name}"; it has ${abilities.join(', ') || 'none'}`
}
