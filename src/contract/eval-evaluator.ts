import { z } from 'zod'
import { Text } from './ids.ts'

/**
 * What scores an attempt, as it is after a file was read: one spelling, defaults in place, unknown keys refused. The files
 * themselves may be written more freely; `src/core/evals/files` reads them.
 */

export const maxEvaluators = 50
const maxJudgeSeconds = 600

const Name = Text(100, 1)
const Weight = z.number().min(0).max(1000).default(1)
export const EvalPath = Text(1000, 1).refine(
  (path) => !path.startsWith('/') && !path.split('/').includes('..') && !path.includes('\\'),
  { error: 'Must be a path inside of the workspace, with "/" between its parts' },
)
/** RE2 syntax: linear time. That it can be read is checked where files are read. */
const Pattern = Text(1000, 1)
const Globs = z.array(Text(1000, 1)).max(100)
const Seconds = z.number().int().min(1).max(maxJudgeSeconds).default(60)

const shared = {
  name: Name,
  weight: Weight,
  required: z.boolean().default(false).describe('If it does not pass, the score is 0'),
}
const evaluator = <T extends string, S extends z.ZodRawShape>(type: T, shape: S) =>
  z.strictObject({ ...shared, type: z.literal(type), ...shape })

/** `args` and `output`: absent or "any" is not checked; an object is compared by the keys that it names. */
const ExpectedCall = z.strictObject({
  tool: Text(200, 1),
  args: z.union([z.literal('any'), z.record(z.string(), z.unknown())]).optional(),
  output: z.unknown().optional(),
})
export type ExpectedCall = z.infer<typeof ExpectedCall>

export const ToolTrajectory = evaluator('tool_trajectory', {
  mode: z.enum(['any_order', 'in_order', 'exact']),
  minimums: z.record(Text(200, 1), z.number().int().min(1).max(10_000)).default({}),
  expected: z.array(ExpectedCall).max(1000).default([]),
})
export type ToolTrajectory = z.infer<typeof ToolTrajectory>

export const FieldMatch = z.strictObject({
  path: Text(500, 1).describe('Such as invoice.lines[0].amount'),
  match: z.enum(['exact', 'numeric_tolerance', 'date']).default('exact'),
  tolerance: z.number().min(0).default(0),
  relative: z.boolean().default(false).describe('The tolerance is a share of the expected number'),
  required: z.boolean().default(true).describe('Absent from the answer is a miss'),
  weight: Weight,
})
export type FieldMatch = z.infer<typeof FieldMatch>

export const FieldAccuracy = evaluator('field_accuracy', {
  fields: z.array(FieldMatch).min(1).max(200),
  aggregation: z.enum(['weighted_average', 'all_or_nothing']).default('weighted_average'),
})
export type FieldAccuracy = z.infer<typeof FieldAccuracy>

export const Latency = evaluator('latency', {
  threshold: z.number().min(0).describe('Milliseconds'),
})
export type Latency = z.infer<typeof Latency>
export const Cost = evaluator('cost', { budget: z.number().min(0).describe('US dollars') })
export type Cost = z.infer<typeof Cost>

const tokens = z.number().int().min(0).optional()
export const TokenUsageLimit = evaluator('token_usage', {
  maxTotal: tokens.describe('Input, output and cached together'),
  maxInput: tokens,
  maxOutput: tokens,
})
export type TokenUsageLimit = z.infer<typeof TokenUsageLimit>

export const Contains = evaluator('contains', {
  value: z.array(Text(10_000, 1)).min(1).max(100),
  ignoreCase: z.boolean().default(false),
})
export type Contains = z.infer<typeof Contains>
export const Equals = evaluator('equals', {
  value: z.unknown().describe('A text is compared without the white space around it'),
  ignoreCase: z.boolean().default(false),
})
export type Equals = z.infer<typeof Equals>
export const Matches = evaluator('regex', {
  pattern: Pattern,
  ignoreCase: z.boolean().default(false),
})
export type Matches = z.infer<typeof Matches>
export const MatchesSchema = evaluator('json_schema', {
  schema: z.record(z.string(), z.unknown()).describe('The keywords that docs/evals.md names'),
})
export type MatchesSchema = z.infer<typeof MatchesSchema>

export const FileExists = evaluator('file_exists', { paths: z.array(EvalPath).min(1).max(100) })
export type FileExists = z.infer<typeof FileExists>
export const FileMatches = evaluator('file_matches', {
  path: EvalPath,
  pattern: Pattern.optional(),
  contains: Text(10_000, 1).optional(),
  equals: Text(100_000).optional(),
})
export type FileMatches = z.infer<typeof FileMatches>

export const CommandExit = evaluator('command', {
  command: Text(32 * 1024, 1).describe("Run in the attempt's own workspace, under its policy"),
  cwd: EvalPath.optional(),
  timeoutSeconds: Seconds,
  exitCode: z.number().int().min(0).max(255).default(0),
})
export type CommandExit = z.infer<typeof CommandExit>

export const DiffScope = evaluator('diff_scope', {
  allow: Globs.default([]).describe('Every changed path matches one of them; none: any may change'),
  deny: Globs.default([]),
  changesRequired: z.boolean().default(false).describe('Nothing changed is a miss'),
})
export type DiffScope = z.infer<typeof DiffScope>

export const PolicyKept = evaluator('policy', {
  allowDenied: z.array(Text(200, 1)).max(100).default([]).describe('Tools that may be denied'),
})
export type PolicyKept = z.infer<typeof PolicyKept>
export const ChangesProven = evaluator('evidence', {})
export type ChangesProven = z.infer<typeof ChangesProven>

export const CodeJudge = evaluator('code_judge', {
  command: Text(32 * 1024, 1).describe(
    'Gets the case and the answer as JSON on standard input, answers {score, hits, misses, reasoning}; without network',
  ),
  timeoutSeconds: Seconds,
})
export type CodeJudge = z.infer<typeof CodeJudge>

const judge = { target: Text(100, 1).optional().describe("Default: the target's judge") }
export const LlmJudge = evaluator('llm_judge', {
  ...judge,
  prompt: Text(20_000, 1).optional().describe('What to look at; the rest of the prompt is fixed'),
})
export type LlmJudge = z.infer<typeof LlmJudge>

const Rubric = z.strictObject({
  id: Text(100, 1),
  description: Text(4000, 1),
  weight: Weight,
  required: z.boolean().default(false),
})
type Rubric = z.infer<typeof Rubric>
export const RubricJudge = evaluator('rubric', {
  ...judge,
  rubrics: z.array(Rubric).min(1).max(50),
})
export type RubricJudge = z.infer<typeof RubricJudge>

const leaves = [
  ToolTrajectory,
  FieldAccuracy,
  Latency,
  Cost,
  TokenUsageLimit,
  Contains,
  Equals,
  Matches,
  MatchesSchema,
  FileExists,
  FileMatches,
  CommandExit,
  DiffScope,
  PolicyKept,
  ChangesProven,
  CodeJudge,
  LlmJudge,
  RubricJudge,
] as const

export const LeafEvaluator = z.discriminatedUnion('type', leaves)
export type LeafEvaluator = z.infer<typeof LeafEvaluator>

/** One level: its parts are no composites. */
const Composite = evaluator('composite', {
  evaluators: z.array(LeafEvaluator).min(1).max(maxEvaluators),
})
type Composite = z.infer<typeof Composite>

export const EvaluatorConfig = z.discriminatedUnion('type', [...leaves, Composite])
export type EvaluatorConfig = z.infer<typeof EvaluatorConfig>
