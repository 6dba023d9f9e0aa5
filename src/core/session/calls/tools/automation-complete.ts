import { automationCompleteTool } from '../../../../contract/tools/automation-complete.ts'
import { completionAnswer, toCompletion } from './completion.ts'
import { gatewayTool } from './tool.ts'

/** Without a promise: decision, record and answer are one commit, so it can be repeated by nobody. */
export const automationComplete = gatewayTool({
  definition: automationCompleteTool,
  repeatable: true,
  run(args, call) {
    const incoming = toCompletion(call.sessionId, args)
    return completionAnswer(call.completeRun(incoming), incoming)
  },
  late(args, call) {
    const incoming = toCompletion(call.sessionId, args)
    const decision = call.decideRun(incoming)
    return decision.kind === 'already-recorded' ? completionAnswer(decision, incoming) : null
  },
})
