import type { AgentResolve, SessionAgent } from '../../contract/agent-resolve.ts'
import { AppError } from '../../contract/error.ts'
import {
  findAgentRow,
  loadAgentRow,
  subagentRowsOfAgent,
  type Row,
} from '../registry/agents/agents.ts'
import { loadAgentResolution } from '../registry/agents/resolution.ts'
import { shippedAgents } from '../registry/agents/shipped.ts'
import { placeOf } from '../registry/place.ts'
import { type Pin, pinFor } from '../session/pins/pins.ts'
import type { PinContext, Pinner } from './pinner.ts'

/** The agent that the session names or that its task leads to, and all subagents that it may send. */
export const pinAgent: Pinner = async (context) => {
  const { agent: wanted } = context.input
  if (wanted === undefined) return []
  const agent = 'name' in wanted ? await named(context, wanted) : await resolved(context, wanted)
  const subagents = await subagentRowsOfAgent(context.db, agent.id)
  return await Promise.all([
    pinOf(context, 'agent', agent),
    ...subagents.map((subagent) => pinOf(context, 'subagent', subagent)),
  ])
}

/** The text as it is stored, so that its hash is that of the revision. */
const pinOf = (
  { crypto }: PinContext,
  kind: 'agent' | 'subagent',
  { id, name, revision, definition: content }: Row,
): Promise<Pin> => pinFor(crypto, { kind, id, name, revision, content })

type Named = Extract<SessionAgent, { name: string }>

async function named(context: PinContext, { name, scope }: Named): Promise<Row> {
  const { db, project } = context
  const found = await findAgentRow(db, placeOf(context, { project, scope }), name)
  if (!found || found.archivedAt !== null)
    throw refusal(
      'agent.name',
      `There is no agent "${name}" of scope ${scope} in project "${project}"${hintFor(name)}`,
    )
  if (found.mode === 'subagent')
    throw refusal('agent.name', `"${name}" is a subagent: start the agent that delegates to it`)
  return found
}

const hintFor = (name: string): string =>
  shippedAgents.some((shipped) => shipped.name === name)
    ? ': POST /v1/agents/shipped stores it there'
    : ''

async function resolved(
  context: PinContext,
  { resolve }: Extract<SessionAgent, { resolve: object }>,
): Promise<Row> {
  const asked: AgentResolve = { ...resolve, project: context.project, mode: 'agent' }
  const { candidates, skipped } = await loadAgentResolution(context.db, context, asked)
  const [best] = candidates
  // That it is an agent speaks for everyone alike.
  if (best && best.reasons.some(({ signal, points }) => signal !== 'mode' && points > 0))
    return await loadAgentRow(context.db, best.agent.id)
  const counts = `${candidates.length} fit and nothing speaks for one of them, ${skipped.length} do not fit`
  const next = 'Ask for less, name an agent, or see POST /v1/agents/resolve for the reasons'
  throw refusal(
    'agent.resolve',
    `No agent of project "${context.project}" is for this task: ${counts}. ${next}`,
  )
}

const refusal = (path: string, message: string) =>
  new AppError('unprocessable', `Cannot start the session: ${message}`, [{ path, message }])
