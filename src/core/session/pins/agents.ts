import type { AgentDefinition } from '../../../contract/agent.ts'
import type { ProfileDefinition } from '../../../contract/profile.ts'
import type { Sql } from '../../ports.ts'
import { type Pin, pinsOf } from './pins.ts'

export interface PinnedAgent {
  name: string
  definition: AgentDefinition
  /** Its own, else the profile's for it. Null: neither names one. */
  model: string | null
}

/** Who works in the session, and whom it may send. */
export interface PinnedAgents {
  agent: PinnedAgent
  subagents: readonly PinnedAgent[]
}

/** Null: the session was started without a registered agent. */
export function agentsInPins(pins: readonly Pin[]): PinnedAgents | null {
  const profile = profileIn(pins)
  const [agent] = pinned(pins, 'agent', (name) => entry(profile?.agents, name))
  const subagents = pinned(
    ...[pins, 'subagent' as const],
    (name, { workflows }) => entry(profile?.subagents, name) ?? byPhase(profile, workflows),
  )
  return agent ? { agent, subagents } : null
}

type ModelOf = (name: string, definition: AgentDefinition) => string | null | undefined

const pinned = (
  pins: readonly Pin[],
  kind: 'agent' | 'subagent',
  modelOf: ModelOf,
): PinnedAgent[] =>
  pins
    .filter((pin) => pin.kind === kind)
    .map(({ name, content }) => {
      const definition = JSON.parse(content) as AgentDefinition
      return { name, definition, model: definition.model ?? modelOf(name, definition) ?? null }
    })

const profileIn = (pins: readonly Pin[]): ProfileDefinition | null => {
  const found = pins.find(({ kind }) => kind === 'profile')
  return found ? (JSON.parse(found.content) as ProfileDefinition) : null
}

const entry = (models: Record<string, string> | undefined, name: string): string | undefined =>
  models && Object.hasOwn(models, name) ? models[name] : undefined

/** Of the first workflow whose phase the profile knows. What apply leaves behind is called apply-progress. */
function byPhase(
  profile: ProfileDefinition | null,
  workflows: readonly string[],
): string | undefined {
  const phases = workflows.map((form) => form.split(':').at(-1) ?? form)
  const spelled = phases.flatMap((phase) => (phase === 'apply' ? [phase, 'apply-progress'] : phase))
  return spelled.map((phase) => entry(profile?.phases, phase)).find((model) => model !== undefined)
}

/** What the registries say of the session's own model; null: nothing. */
export const modelIn = (pins: readonly Pin[]): string | null =>
  agentsInPins(pins)?.agent.model ?? profileIn(pins)?.orchestrator ?? null

export const pinnedAgents = (sql: Sql): PinnedAgents | null =>
  agentsInPins([...pinsOf(sql, 'agent'), ...pinsOf(sql, 'subagent'), ...pinsOf(sql, 'profile')])

/** Ids of the models that subagents have of their own. */
export const modelsOfSubagents = (agents: PinnedAgents | null): string[] => [
  ...new Set((agents?.subagents ?? []).flatMap(({ model }) => model ?? [])),
]
