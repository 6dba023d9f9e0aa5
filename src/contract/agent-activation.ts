import type { z } from 'zod'
import { AgentMatch, AgentResolve } from './agent-resolve.ts'
import { Instructions } from './agent.ts'
import { RunEvent } from './run.ts'
import { SkillPayload } from './skill.ts'

/** What a task of a run is; the project is the run's. */
export const AgentActivate = AgentResolve.omit({ project: true })
export type AgentActivate = z.infer<typeof AgentActivate>

/** Who is to do it, why, and with what. */
export const AgentActivation = AgentMatch.extend({
  instructions: Instructions.nullable(),
  skills: SkillPayload,
  event: RunEvent.describe('The entry of the timeline'),
})
export type AgentActivation = z.infer<typeof AgentActivation>
