import type { AgentDefinition } from '../../../contract/agent.ts'
import type { Sql } from '../../ports.ts'
import { type Pin, pinsOf } from './pins.ts'

export interface PinnedAgent {
  name: string
  definition: AgentDefinition
}

/** Who works in the session, and whom it may send. */
export interface PinnedAgents {
  agent: PinnedAgent
  subagents: readonly PinnedAgent[]
}

const pinnedOf = ({ name, content }: Pin): PinnedAgent => ({
  ...{ name, definition: JSON.parse(content) as AgentDefinition },
})

/** Null: the session was started without a registered agent. */
export function agentsIn(pins: readonly Pin[]): PinnedAgents | null {
  const agent = pins.find(({ kind }) => kind === 'agent')
  const subagents = pins.filter(({ kind }) => kind === 'subagent')
  return agent ? { agent: pinnedOf(agent), subagents: subagents.map(pinnedOf) } : null
}

export const pinnedAgents = (sql: Sql): PinnedAgents | null =>
  agentsIn([...pinsOf(sql, 'agent'), ...pinsOf(sql, 'subagent')])

/** Ids of the models that subagents have of their own. */
export const modelsOfSubagents = (agents: PinnedAgents | null): string[] => [
  ...new Set((agents?.subagents ?? []).flatMap(({ definition: { model } }) => model ?? [])),
]
