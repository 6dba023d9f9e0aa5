import { z } from 'zod'

/** What a gate's question is answered with. Whatever needs a person is parked until it is one of these. */
export const GateDecision = z.enum(['allow', 'deny'])
export type GateDecision = z.infer<typeof GateDecision>

/** What a question is told. */
export interface Answer {
  askId: string
  decision: GateDecision
  reason: string
}

/** The name under which the proxy of an enclosure asks whether a host and port may be reached. No tool of OpenCode. */
export const egressTool = 'network'

/** The name under which OpenCode's own questions about permissions come, in the session of an eval attempt. */
export const permissionTool = 'permission'
