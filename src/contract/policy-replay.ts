import { z } from 'zod'
import { RunId, SessionId } from './ids.ts'
import { Category, Decision } from './permission.ts'
import { PolicyPut } from './stored-policy.ts'

const maxReplayRows = 50_000
export const maxReplayDifferences = 1000

const at = z.number().int().min(0)

/** Which policy, and on which decisions. */
export const PolicyReplay = z
  .strictObject({
    source: PolicyPut.shape.source.optional().describe('A proposed document'),
    format: PolicyPut.shape.format,
    version: z.number().int().min(1).optional().describe('Or a stored one, of `project`'),
    project: PolicyPut.shape.project,
    builtin: z.literal(true).optional().describe('Or what counts where there is no document'),
    runIds: z.array(RunId).min(1).max(100).optional(),
    from: at.optional().describe('Or a time range, in milliseconds since 1970; `to` is not in it'),
    to: at.optional().describe('Default: now'),
    limit: z.number().int().min(1).max(maxReplayRows).default(10_000),
  })
  .superRefine((input, context) => {
    const issue = (path: string, message: string) =>
      context.addIssue({ code: 'custom', path: [path], message })
    const policies = [input.source, input.version, input.builtin]
    if (policies.filter((given) => given !== undefined).length !== 1)
      issue('source', 'Give exactly one of source, version and builtin')
    if ((input.runIds === undefined) === (input.from === undefined))
      issue('runIds', 'Give either runIds or from')
    if (input.to !== undefined && (input.from === undefined || input.to < input.from))
      issue('to', 'Must come with from, and not be before it')
  })
export type PolicyReplay = z.infer<typeof PolicyReplay>

/** A decision that would have been another. */
export const ReplayDifference = z.object({
  runId: RunId,
  sessionId: SessionId,
  seq: z.number().int(),
  at: z.number(),
  tool: z.string().nullable(),
  category: Category,
  before: Decision,
  after: Decision,
  ruleBefore: z.string(),
  ruleAfter: z.string(),
  reasonAfter: z.string(),
})
export type ReplayDifference = z.infer<typeof ReplayDifference>

const count = z.number().int()

export const PolicyReplayed = z.object({
  policy: z.object({ name: z.string(), version: count }),
  total: count.describe('Decisions that were evaluated again'),
  same: count,
  changed: z.record(z.string(), count).describe('Such as "allow->ask": 3'),
  rows: z.array(ReplayDifference).describe(`The first ${maxReplayDifferences} of those changed`),
  skipped: z
    .object({ grant: count, state: count, unreadable: count })
    .describe('Not decided by a policy: by a remembered approval, by the state of the session'),
  truncated: z.boolean().describe('There are more decisions than were looked at'),
  lastAt: z.number().nullable().describe('When the last of those looked at was made'),
})
export type PolicyReplayed = z.infer<typeof PolicyReplayed>
