import { z } from 'zod'
import { EvalPath } from './eval-evaluator.ts'
import { ProviderResponse } from './eval-response.ts'
import { Text } from './ids.ts'
import { ReasoningEffort } from './models.ts'

/** What is evaluated, as it is after a targets file was read: camelCase, defaults in place, unknown keys refused. */

export const TargetName = Text(100, 1)

const shared = {
  name: TargetName,
  judgeTarget: TargetName.optional().describe('The http target that judges; never the same one'),
  workers: z.number().int().min(1).max(64).default(1).describe('Attempts at the same time'),
  timeoutSeconds: z.number().int().min(1).max(86_400).default(600).describe('Of one attempt'),
  maxRetries: z.number().int().min(0).max(10).default(0).describe('After a time-out only'),
}
const sandboxed = {
  sandbox: Text(100, 1).optional().describe("Default: the deployment's provider"),
  secrets: z
    .array(Text(200, 1))
    .max(100)
    .default([])
    .describe('The only secrets that its sandboxes may have, by name'),
}

/** What is answered to every permission that OpenCode or the gate asks for. Nothing ever waits for a person. */
export const TargetPermissions = z.enum(['reject', 'once', 'always'])
export type TargetPermissions = z.infer<typeof TargetPermissions>

export const OpencodeTarget = z.strictObject({
  ...shared,
  ...sandboxed,
  provider: z.literal('opencode'),
  model: Text(100, 1).optional(),
  reasoningEffort: ReasoningEffort.optional(),
  agent: Text(200, 1).optional().describe('A registered agent'),
  profile: Text(200, 1).optional(),
  systemPrompt: Text(100_000).optional(),
  policy: Text(256 * 1024, 1)
    .optional()
    .describe('The text of a policy. Default: a fixed one, whatever the enclosure is'),
  skills: z.array(Text(200, 1)).max(100).optional(),
  ability: Text(200, 1).optional(),
  permissions: TargetPermissions.default('reject'),
  streamLogs: z.boolean().default(true),
  logDir: Text(1000, 1).default('.agentv/logs/opencode'),
  logFormat: z
    .literal('json', { error: 'Must be json: the log of OpenCode is its events, one on each line' })
    .default('json'),
})
export type OpencodeTarget = z.infer<typeof OpencodeTarget>

export const CliTarget = z.strictObject({
  ...shared,
  ...sandboxed,
  provider: z.literal('cli'),
  cwd: EvalPath.optional().describe('Where its command runs, below the workspace'),
  command: Text(32 * 1024, 1).describe(
    'Run in the sandbox. EVAL_PROMPT_FILE has the question; the answer is what it prints, or what it writes to EVAL_OUTPUT_FILE',
  ),
})
export type CliTarget = z.infer<typeof CliTarget>

export const HttpTarget = z.strictObject({
  ...shared,
  provider: z.literal('http'),
  model: Text(100, 1).describe(
    'Of a configured upstream of the model proxy; there is no other way out',
  ),
  systemPrompt: Text(100_000).optional(),
  temperature: z.number().min(0).max(2).optional(),
  maxOutputTokens: z.number().int().min(1).max(1_000_000).optional(),
})
export type HttpTarget = z.infer<typeof HttpTarget>

/** Recorded answers by case, one per attempt; the last one stands for all later attempts. */
export const ReplayTarget = z.strictObject({
  ...shared,
  provider: z.literal('replay'),
  responses: z.record(z.string(), z.array(ProviderResponse).min(1).max(1000)),
})
export type ReplayTarget = z.infer<typeof ReplayTarget>

export const Target = z.discriminatedUnion('provider', [
  OpencodeTarget,
  CliTarget,
  HttpTarget,
  ReplayTarget,
])
export type Target = z.infer<typeof Target>
