import { z } from 'zod'
import { AgentMode, AgentName, AgentSkill, Capability, Workflow } from './agent.ts'
import { AgentId, Text } from './ids.ts'
import { RegistryPlace, RegistryScope } from './registry-scope.ts'

const asked = <T extends z.ZodType>(item: T) => z.array(item).max(50).default([])

/** What a task is, for whoever looks for an agent that may have it. What is left out is not asked for. */
export const AgentResolve = RegistryPlace.extend({
  task: Text(10_000).default('').describe('In the words of whoever wants it done'),
  capabilities: asked(Capability),
  workflow: Workflow.optional(),
  phase: Capability.optional(),
  adapter: Capability.optional().describe('The provider that is to run it, such as opencode'),
  skills: asked(AgentSkill.shape.name),
  mode: AgentMode.optional(),
  parent: AgentName.optional().describe('Subagents of this agent are preferred'),
})
export type AgentResolve = z.infer<typeof AgentResolve>

/** Which registered agent works in a session. A resolution takes the best agent for which something speaks. */
export const SessionAgent = z.union(
  [
    z.strictObject({ name: AgentName, scope: RegistryScope.default('project') }),
    z.strictObject({ resolve: AgentResolve.omit({ project: true, mode: true, parent: true }) }),
  ],
  { error: 'Expected {name, scope} or {resolve}' },
)
export type SessionAgent = z.infer<typeof SessionAgent>

export const ResolvedAgent = z.object({
  id: AgentId,
  name: z.string(),
  project: z.string(),
  scope: RegistryScope,
  mode: AgentMode,
  revision: z.number().int(),
})
export type ResolvedAgent = z.infer<typeof ResolvedAgent>

export const AgentReason = z.object({
  signal: z.enum(['capability', 'workflow', 'adapter', 'skill', 'text', 'mode', 'parent']),
  points: z.number().int(),
  message: z.string(),
})
export type AgentReason = z.infer<typeof AgentReason>

export const AgentMatch = z.object({
  agent: ResolvedAgent,
  score: z.number().int(),
  reasons: z.array(AgentReason),
})
export type AgentMatch = z.infer<typeof AgentMatch>

export const AgentSkipped = z.object({
  agent: ResolvedAgent,
  reasons: z.array(
    z.object({
      signal: z.enum(['project', 'scope', 'mode', 'adapter', 'workflow', 'capability']),
      message: z.string(),
    }),
  ),
})
export type AgentSkipped = z.infer<typeof AgentSkipped>

export const AgentResolution = z.object({
  candidates: z.array(AgentMatch).describe('Best first'),
  skipped: z.array(AgentSkipped),
})
export type AgentResolution = z.infer<typeof AgentResolution>
