import type { AgentDefinition } from '../../../contract/agent.ts'
import { findModel, type Model } from '../../../contract/models.ts'
import type { Category } from '../../../contract/permission.ts'
import type { PinnedAgent, PinnedAgents } from '../pins/agents.ts'

interface AgentsInput {
  agents?: PinnedAgents | null
  models: readonly Model[]
}

/** The text of opencode.json with the session's agents in it. The copy in the workspace has none: they are not the repository's. */
export function manifestWithAgents(config: string, { agents = null, models }: AgentsInput): string {
  if (agents === null) return config
  // Put together as text, since the escapes must stand in it.
  return config.replace(
    /\n\}\n$/,
    () => `,\n${literalJson(opencodeAgents(agents, models)).slice(2)}\n`,
  )
}

/**
 * The part of opencode.json that makes registered agents OpenCode's own. Gantry's gate decides what they may do, whatever
 * stands here: what is denied altogether is also hidden from the model, so that it does not try.
 */
function opencodeAgents(agents: PinnedAgents, models: readonly Model[]): object {
  const { agent, subagents } = agents
  const named = Object.fromEntries(subagents.map(({ name }) => [name, 'allow']))
  const task = { '*': 'deny', ...named }
  return {
    default_agent: agent.name,
    agent: Object.fromEntries([
      [agent.name, entryOf(agent, 'primary', { task })],
      ...subagents.map((one) => {
        const model = findModel(one.model ?? '', models)
        const own = entryOf(one, 'subagent', { task: 'deny' })
        return [one.name, { ...own, ...(model && { model: model.opencodeId }) }]
      }),
    ]),
  }
}

function entryOf({ name, definition }: PinnedAgent, mode: string, permission: object): object {
  const prompt = promptOf(definition)
  return {
    mode,
    // OpenCode asks subagents for one: the model chooses by it.
    description: definition.description || name,
    ...(prompt !== null && { prompt }),
    permission: { ...hidden(definition), ...permission },
  }
}

/** A file of the workspace is read by the agent itself: it may be missing, and it may be another one tomorrow. */
function promptOf({ instructions }: AgentDefinition): string | null {
  if (instructions === null) return null
  if (instructions.kind === 'inline') return instructions.value
  return `Your instructions are in the file "${instructions.value}" of the workspace. Read it before you do anything else, and follow it. If it is missing, say so and stop.`
}

/** OpenCode's names of the tools that have no use without these categories. */
const tools: readonly { tool: string; categories: readonly Category[] }[] = [
  { tool: 'edit', categories: ['edit'] },
  { tool: 'bash', categories: ['shell', 'git'] },
  { tool: 'webfetch', categories: ['network'] },
]

const hidden = ({ permissions }: AgentDefinition): Record<string, 'deny'> =>
  Object.fromEntries(
    tools
      .filter(({ categories }) => categories.every((category) => permissions[category] === 'deny'))
      .map(({ tool }) => [tool, 'deny'] as const),
  )

/**
 * As JSON, in which OpenCode finds nothing to put in: it replaces `{env:NAME}` and `{file:PATH}` in the text of its
 * configuration, and what a registry holds must neither name variables nor read files.
 */
const literalJson = (value: object): string =>
  JSON.stringify(value, null, 2).replaceAll(/\{(?=env:|file:)/g, String.raw`\u007b`)
