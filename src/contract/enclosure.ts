import { z } from 'zod'

/**
 * How far the kernel holds a sandbox. full: OpenCode and all it starts see their own files, processes and network only.
 * uid: they run as another user than the agent. none: only what the policy reads in commands stands between them and the
 * machine.
 */
export const Enclosure = z.enum(['full', 'uid', 'none'])
export type Enclosure = z.infer<typeof Enclosure>
