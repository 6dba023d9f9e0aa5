import type { AgentActivate, AgentActivation } from '../../contract/agent-activation.ts'
import type { AgentMatch } from '../../contract/agent-resolve.ts'
import { AppError } from '../../contract/error.ts'
import { loadAgentById } from '../registry/agents/agents.ts'
import { loadAgentResolution } from '../registry/agents/resolution.ts'
import type { SkillCaller } from '../registry/skills/skills.ts'
import { skillReferenceOf } from './pin-skills.ts'
import { type PayloadPorts, resolvedSkillPayload } from './resolve-skills.ts'
import type { Caller } from '../session/record/caller.ts'
import type { SessionApi } from '../session/session.ts'

/** Who is to do a task of a run, and with which skills: an entry of the timeline says that it was chosen. Nothing is run. */
export async function activateAgent(
  ports: PayloadPorts,
  runs: Pick<SessionApi['runs'], 'get' | 'addEvent'>,
  caller: Caller & SkillCaller,
  runId: string,
  asked: AgentActivate,
  key: string | null,
): Promise<AgentActivation> {
  const { project, sessionId: session } = (await runs.get(caller, runId)).run
  const { candidates } = await loadAgentResolution(ports.db(), caller, { ...asked, project })
  const best = bestOf(candidates, project)
  const { skills: defined, instructions } = await loadAgentById(ports.db(), caller, best.agent.id)
  const { name, mode, scope } = best.agent
  const { workflow, phase, adapter } = asked
  const skills = await resolvedSkillPayload(ports, caller, {
    ...{ project, scope, skills: [], session, workflow, phase, adapter },
    agent: { name, mode, skills: defined.map(skillReferenceOf) },
  })
  const event = await runs.addEvent(caller, runId, entryOf(best, skills), key)
  return { ...best, instructions, skills, event }
}

/** That it is an agent, or a subagent, speaks for everyone alike. */
function bestOf(candidates: readonly AgentMatch[], project: string): AgentMatch {
  const [best] = candidates
  if (best?.reasons.some(({ signal, points }) => signal !== 'mode' && points > 0)) return best
  throw new AppError(
    'unprocessable',
    `No agent of project "${project}" is for this task: ask for less, or see POST /v1/agents/resolve for the reasons`,
  )
}

const entryOf = ({ agent, score }: AgentMatch, { items }: AgentActivation['skills']) => ({
  kind: 'agent.invoked' as const,
  data: {
    ...{ agentId: agent.id, name: agent.name, revision: agent.revision, mode: agent.mode, score },
    skills: items.map(({ skillId, version }) => ({ skillId, version })),
  },
})
