import { z } from '@hono/zod-openapi'
import * as schemas from '../../contract/agent.ts'
import * as resolveSchemas from '../../contract/agent-resolve.ts'
import { AgentResolution, AgentResolve } from '../../contract/agent-resolve.ts'
import * as activationSchemas from '../../contract/agent-activation.ts'
import { AgentActivate, AgentActivation } from '../../contract/agent-activation.ts'
import {
  Agent,
  AgentMode,
  AgentName,
  AgentPut,
  AgentRevision,
  AgentRevisionView,
  AgentRow,
  AgentPlace,
  Capability,
  ShippedAgents,
  StoredAgents,
  Workflow,
} from '../../contract/agent.ts'
import { AgentId } from '../../contract/ids.ts'
import { PageQuery } from '../../contract/page.ts'
import { RegistryPlace } from '../../contract/registry-scope.ts'
import {
  archiveAgent,
  type AgentFilter,
  listAgents,
  listAgentRevisions,
  loadAgentById,
  loadAgentByName,
  loadAgentRevision,
  type Reader,
} from '../../core/registry/agents/agents.ts'
import { loadAgentResolution } from '../../core/registry/agents/resolution.ts'
import { mustMayUsePlace } from '../../core/registry/place.ts'
import { shippedAgents } from '../../core/registry/agents/shipped.ts'

import { putAgent, putShippedAgents } from '../../core/verbs/put-agent.ts'
import { promotionPorts } from '../kit/evals/eval-run-of.ts'
import type { AppDeps } from '../kit/deps.ts'
import { type Cursor, numberedPage, pageBy } from '../kit/paging.ts'
import { params } from '../kit/openapi.ts'
import { activateAgent } from '../../core/verbs/activate-agent.ts'
import { created, ok, route } from '../kit/route.ts'
import { listSchema, nameSchemas } from '../kit/openapi-schemas.ts'

nameSchemas(schemas, resolveSchemas, activationSchemas)

const tag = 'agents'
const agentParams = z.object({ agentId: AgentId })
const ListQuery = PageQuery.extend({
  ...RegistryPlace.partial().shape,
  scope: RegistryPlace.shape.scope.unwrap().optional(),
  project: RegistryPlace.shape.project.unwrap().optional(),
  mode: AgentMode.optional(),
  capability: Capability.optional(),
  workflow: Workflow.optional().describe('Exactly as the agent names it'),
  archived: z.enum(['true', 'false']).optional().describe('true: those that are archived instead'),
})

/** By name, which has no ".", and id. */
const byName: Cursor<AgentRow, { name: string; id: string }> = {
  write: ({ name, id }) => `${name}.${id}`,
  read(cursor) {
    const [, name, id] = /^([a-z0-9_-]{1,64})\.(agt_[0-9a-z]{20})$/.exec(cursor) ?? []
    return name === undefined || id === undefined ? null : { name, id }
  },
}

const page = (deps: AppDeps, reader: Reader, filter: AgentFilter, query: PageQuery) =>
  pageBy(query, byName, (after, limit) => listAgents(deps.db(), reader, filter, { after, limit }))

export const agentRoutes = [
  route({
    id: 'putAgent',
    method: 'put',
    path: '/v1/agents',
    summary:
      'Store an agent or subagent by project, scope and name: a changed one is its next revision',
    tag,
    guard: 'write',
    limitedKeys: 'obeyed',
    body: AgentPut,
    answers: ok(Agent, 'The agent as it is now'),
    refuses: ['forbidden', 'wrong_state', 'unprocessable', 'not_promoted', 'not_configured'],
    answer: ({ deps, caller, body }) => putAgent(promotionPorts(deps), caller, body),
  }),

  route({
    id: 'listAgents',
    method: 'get',
    path: '/v1/agents',
    summary: 'List agents and subagents by name: those of projects, and the own ones',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    query: ListQuery,
    answers: ok(listSchema(AgentRow), 'One page'),
    refuses: ['invalid_request'],
    answer: ({ deps, caller, query: { archived, ...query } }) =>
      page(deps, caller, { ...query, archived: archived === 'true' }, query),
  }),

  route({
    id: 'resolveAgents',
    method: 'post',
    path: '/v1/agents/resolve',
    summary: 'Rank the agents that may be given a task, with reasons; runs and writes nothing',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    body: AgentResolve,
    answers: ok(AgentResolution, 'Who may have it, and who not'),
    refuses: ['forbidden'],
    answer({ deps, caller, body }) {
      mustMayUsePlace(caller, body.project)
      return loadAgentResolution(deps.db(), caller, body)
    },
  }),

  route({
    id: 'activateAgent',
    method: 'post',
    path: '/v1/runs/{runId}/agents',
    summary:
      'Choose who does a task of a run, with the skills; the timeline says so, and nothing is run',
    tag,
    guard: 'write',
    params: params.run,
    body: AgentActivate,
    idempotent: true,
    answers: created(AgentActivation, 'Who, why, and with what'),
    refuses: ['not_found', 'wrong_state', 'key_conflict', 'unprocessable'],
    answer: ({ deps, session, caller, params: { runId }, body, idempotencyKey }) =>
      activateAgent(deps, session.runs, caller, runId, body, idempotencyKey),
  }),

  route({
    id: 'listShippedAgents',
    method: 'get',
    path: '/v1/agents/shipped',
    summary: 'What the release brings: the manager of a change, and a subagent for each phase',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    answers: ok(ShippedAgents, 'All of them'),
    refuses: [],
    answer: () => ({
      items: shippedAgents.map(({ name, definition }) => ({ name, ...definition })),
    }),
  }),

  route({
    id: 'storeShippedAgents',
    method: 'post',
    path: '/v1/agents/shipped',
    summary:
      'Store what the release brings as agents of a project: what it has by these names stays',
    tag,
    guard: 'write',
    limitedKeys: 'obeyed',
    body: AgentPlace,
    bodyMayBeMissing: true,
    answers: ok(StoredAgents, 'The agents of these names as they are now'),
    refuses: ['forbidden', 'wrong_state', 'not_promoted', 'not_configured'],
    answer: async ({ deps, caller, body }) => ({
      items: await putShippedAgents(promotionPorts(deps), caller, body),
    }),
  }),

  route({
    id: 'getAgentByName',
    method: 'get',
    path: '/v1/agents/by-name/{name}',
    summary: 'Get the agent of a name in one project and scope',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    params: z.object({ name: AgentName }),
    query: RegistryPlace,
    answers: ok(Agent, 'The agent'),
    refuses: ['not_found'],
    answer: ({ deps, caller, params, query }) =>
      loadAgentByName(deps.db(), caller, query, params.name),
  }),

  route({
    id: 'getAgent',
    method: 'get',
    path: '/v1/agents/{agentId}',
    summary: 'Get an agent',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    params: agentParams,
    answers: ok(Agent, 'The agent'),
    refuses: ['not_found'],
    answer: ({ deps, caller, params }) => loadAgentById(deps.db(), caller, params.agentId),
  }),

  route({
    id: 'listSubagents',
    method: 'get',
    path: '/v1/agents/{agentId}/subagents',
    summary: 'List the subagents of an agent by name',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    params: agentParams,
    query: PageQuery,
    answers: ok(listSchema(AgentRow), 'One page'),
    refuses: ['not_found', 'invalid_request'],
    async answer({ deps, caller, params, query }) {
      const { id: parentId } = await loadAgentById(deps.db(), caller, params.agentId)
      return await page(deps, caller, { parentId }, query)
    },
  }),

  route({
    id: 'listAgentRevisions',
    method: 'get',
    path: '/v1/agents/{agentId}/revisions',
    summary: 'List the revisions of an agent, oldest first',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    params: agentParams,
    query: PageQuery,
    answers: ok(listSchema(AgentRevision), 'One page'),
    refuses: ['not_found', 'invalid_request'],
    async answer({ deps, caller, params, query }) {
      const { id } = await loadAgentById(deps.db(), caller, params.agentId)
      return await numberedPage(query, (at) => listAgentRevisions(deps.db(), id, at))
    },
  }),

  route({
    id: 'getAgentRevision',
    method: 'get',
    path: '/v1/agents/{agentId}/revisions/{revision}',
    summary: 'Get what an agent was in one revision',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    params: agentParams.extend({ revision: z.coerce.number().int().min(1) }),
    answers: ok(AgentRevisionView, 'The revision'),
    refuses: ['not_found'],
    async answer({ deps, caller, params }) {
      const { id } = await loadAgentById(deps.db(), caller, params.agentId)
      return await loadAgentRevision(deps.db(), id, params.revision)
    },
  }),

  route({
    id: 'archiveAgent',
    method: 'post',
    path: '/v1/agents/{agentId}/archive',
    summary:
      'Archive an agent with its subagents: sessions to come cannot have it; storing it again brings it back',
    tag,
    guard: 'write',
    limitedKeys: 'obeyed',
    params: agentParams,
    answers: ok(Agent, 'The agent'),
    refuses: ['not_found'],
    answer: ({ deps, caller, params }) =>
      archiveAgent(deps.db(), deps.now(), caller, params.agentId),
  }),
]
