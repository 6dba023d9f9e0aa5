import { z } from 'zod'

/**
 * What the kernel holds OpenCode to. full: namespaces of its own for files, processes and network, and bash cannot read
 * OpenCode's secrets. uid: only a user of its own. none: nothing, it is the agent's own user.
 */
export const Enclosure = z.enum(['full', 'uid', 'none'])
export type Enclosure = z.infer<typeof Enclosure>

/** As the sandbox's agent found it when it started OpenCode. */
export const EnclosureReport = z.object({
  level: Enclosure,
  how: z.string().max(200).describe('By what: namespaces made by root or by a user namespace'),
  why: z.string().max(1000).nullable().describe('Why it is not full; null: it is'),
})
export type EnclosureReport = z.infer<typeof EnclosureReport>

/** auto: the strongest that the machine allows. off: as if the machine allowed no namespaces. */
export const EnclosureMode = z.enum(['auto', 'off'])
export type EnclosureMode = z.infer<typeof EnclosureMode>

/** Whether people may approve what a sandbox without an enclosure asks: on one machine its agent could answer itself. */
export const UnwalledApprovals = z.enum(['accept', 'refuse'])
export type UnwalledApprovals = z.infer<typeof UnwalledApprovals>
