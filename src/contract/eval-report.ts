import { z } from 'zod'
import { EvalRunId, Text } from './ids.ts'

/** In which form, and compared with what, the results of an eval run are printed. */
export const EvalReportQuery = z.strictObject({
  format: z.enum(['html', 'junit', 'markdown', 'jsonl']).default('html'),
  target: Text(100, 1)
    .optional()
    .describe('Default: all; needed for a comparison if there are several'),
  baseline: EvalRunId.optional().describe('Another run of the same suite, to compare with'),
  baselineTarget: Text(100, 1).optional().describe('Default: the same target'),
})
export type EvalReportQuery = z.infer<typeof EvalReportQuery>
