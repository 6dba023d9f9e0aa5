import { z } from 'zod'
import { RunId, SessionId, SkillId, Text } from './ids.ts'

/** What came of a skill in a run. selected: the model asked for it; injected: OpenCode has given it its text. */
export const SkillOutcome = z.enum(['selected', 'injected', 'helped', 'failed', 'neutral'])
export type SkillOutcome = z.infer<typeof SkillOutcome>

/** What only somebody who looks at the work can say. */
export const SkillVerdict = z.strictObject({
  skillId: SkillId,
  outcome: SkillOutcome.extract(['helped', 'failed', 'neutral']),
  note: Text(2000).default(''),
})
export type SkillVerdict = z.infer<typeof SkillVerdict>

export const SkillUsage = z.object({
  id: z.string(),
  skillId: SkillId,
  version: z.number().int(),
  sessionId: SessionId,
  runId: RunId,
  outcome: SkillOutcome,
  actor: z.string().describe('The key that said so, or "sandbox"'),
  note: z.string(),
  createdAt: z.number(),
})
export type SkillUsage = z.infer<typeof SkillUsage>
