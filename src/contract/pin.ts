import { z } from 'zod'
import { Sha256 } from './artifact.ts'

export const PinKind = z.enum(['agent', 'subagent', 'skill', 'memory', 'profile', 'ability'])
export type PinKind = z.infer<typeof PinKind>

/** One revision of a registry's row that a session began with. */
export const SessionPin = z.object({
  kind: PinKind,
  name: z.string(),
  id: z.string(),
  revision: z.number().int(),
  sha256: Sha256.describe('Of the content as the registry has it'),
})
export type SessionPin = z.infer<typeof SessionPin>
