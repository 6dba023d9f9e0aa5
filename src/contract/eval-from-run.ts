import { z } from 'zod'
import { EvalCaseId, EvalProblem } from './eval-suite.ts'
import { RunId, Text } from './ids.ts'

/** A run that has ended, as a case of an eval file. Nothing of this is stored. */

export const EvalFromRun = z.strictObject({
  runId: RunId,
  caseId: EvalCaseId.optional().describe("Default: the run's id"),
  dataset: Text(200, 1).optional().describe("Default: the run's project"),
  commit: z
    .string()
    .regex(/^[0-9a-f]{40}([0-9a-f]{24})?$/, { error: 'Must be a whole git commit id' })
    .optional()
    .describe("Where the run began. Default: the session's ref, which may move"),
  files: z.boolean().default(true).describe('Expect each file as the run has left it'),
  scope: z.boolean().default(true).describe('Expect that no other path is changed'),
  commands: z
    .array(Text(32 * 1024, 1))
    .max(20)
    .default([])
    .describe(
      'Expect that these exit with 0, beside what the run itself has verified by a command',
    ),
})
export type EvalFromRun = z.infer<typeof EvalFromRun>

export const EvalFromRunMade = z.object({
  path: z.string().describe('A name for the file'),
  content: z.string().describe('An eval file in YAML'),
  problems: z.array(EvalProblem).describe('What POST /v1/evals/validate says of it'),
  notes: z.array(z.string()).describe('What the case does not hold, and what to do about it'),
})
export type EvalFromRunMade = z.infer<typeof EvalFromRunMade>
