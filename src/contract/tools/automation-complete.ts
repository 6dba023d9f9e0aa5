import { z } from 'zod'
import { CallerKey, Text } from '../ids.ts'
import type { ContractTool } from '../tool.ts'

export const CompletionOutcome = z.enum(['succeeded', 'failed', 'needs_human'])
export type CompletionOutcome = z.infer<typeof CompletionOutcome>

/** Both spellings mean one argument; if they disagree both stay, and the strict schema refuses the second. */
function foldSpellings(args: unknown): unknown {
  if (args === null || typeof args !== 'object' || Array.isArray(args)) return args
  const folded: Record<string, unknown> = { ...args }
  for (const [camel, snake] of [
    ['runId', 'run_id'],
    ['completionId', 'completion_id'],
  ] as const) {
    if (!Object.hasOwn(folded, camel)) continue
    if (Object.hasOwn(folded, snake) && folded[snake] !== folded[camel]) continue
    folded[snake] = folded[camel]
    delete folded[camel]
  }
  return folded
}

export const AutomationCompleteArgs = z.preprocess(
  foldSpellings,
  z.strictObject({
    run_id: CallerKey.describe('The id of the automation run, as given in your instructions'),
    completion_id: CallerKey.describe(
      'An id for this completion, made by you; repeat it unchanged if you have to repeat the call',
    ),
    outcome: CompletionOutcome.describe(
      'succeeded: done and verified. failed: it cannot be done. needs_human: a person must decide or act',
    ),
    summary: Text(20_000).optional().describe('What was done and what is left, in markdown'),
    data: z
      .record(z.string(), z.unknown())
      .optional()
      .describe('Results for programs, such as links or counts'),
  }),
)
export type AutomationCompleteArgs = z.infer<typeof AutomationCompleteArgs>

export const automationCompleteTool = {
  name: 'automation.complete',
  // The model sees the file's name: OpenCode knows no tool with a dot.
  aliases: ['automation_complete'],
  domain: 'gateway',
  modes: ['automation'],
  fileName: 'automation_complete',
  callIdFrom: 'completion_id',
  args: AutomationCompleteArgs,
  description: 'Report the outcome of this automation run. Ends the run and closes the session.',
  guidance: [
    'Automation sessions only; automation.complete and automation_complete are the same tool. Call it exactly once, as your last act, whatever happened: a run without it counts as unfinished.',
    'run_id is in your instructions. completion_id is any new unique text. outcome is one of succeeded, failed, needs_human; there is no default.',
    'If you are not sure that the call arrived, repeat it with the same completion_id and exactly the same arguments: it counts once. The same completion_id with other arguments is refused, and so is a second completion with another id.',
    'After an answer "Invalid arguments" nothing was recorded: correct them and call again.',
  ].join('\n'),
  onConflict: 'answer',
} as const satisfies ContractTool
