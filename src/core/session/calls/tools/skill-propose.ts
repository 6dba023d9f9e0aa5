import { skillProposeTool } from '../../../../contract/tools/skill-propose.ts'
import type { ToolResult } from '../../../../contract/tool.ts'
import { countProposals, createProposal } from '../../../registry/skills/proposals.ts'
import { findSkillOf } from '../../../registry/skills/skills.ts'
import { type CallContext, gatewayTool } from './tool.ts'

/** People look at each: one session must not bury the others'. */
const maxOpen = 20

/** Repeatable: the proposal carries the operation's id, so that it is made once. The skill stays as it is. */
export const skillPropose = gatewayTool({
  definition: skillProposeTool,
  repeatable: true,
  async run({ skill: name, content, description, rationale, signal }, call) {
    const pin = call.skills().find((one) => one.name === name)
    const skill = pin && (await findSkillOf(call.db(), call.organisationId, pin.id))
    if (!pin || !skill) return unknownSkill(name, call)
    if ((await countProposals(call.db(), call.sessionId)) >= maxOpen) return tooMany
    const id = `skp_${call.operationId.slice(3)}`
    await createProposal(call.db(), call, call.now(), call, {
      ...{ id, skill },
      asker: { kind: 'sandbox', id: call.sessionId, memberId: null, countsAs: null },
      input: {
        baseVersion: pin.revision,
        ...(description !== undefined && { description }),
        source: { kind: 'inline', content },
        ...{ rationale, signal: { kind: signal, reference: call.sessionId }, submit: true },
      },
    })
    return {
      success: true,
      result: `Proposed as ${id}. A person decides; this session keeps version ${pin.revision}.`,
      data: { proposalId: id },
    }
  },
})

function unknownSkill(name: string, call: CallContext): ToolResult {
  const names = call.skills().map((one) => one.name)
  return {
    success: false,
    result: `This session has no skill "${name}": it has ${names.join(', ') || 'none'}`,
  }
}

const tooMany: ToolResult = {
  success: false,
  result: `This session has ${maxOpen} proposals that wait for people: say in your answer what you would change`,
}
