import { z } from 'zod'
import { EvaluatorConfig, maxEvaluators } from './eval-evaluator.ts'
import { Target } from './eval-target.ts'
import { Text } from './ids.ts'
import { Repository } from './session.ts'

/** A suite of eval cases as it is after its file was read. `src/core/evals/files` makes it, and the file may be freer. */

export const maxEvalFileBytes = 1024 * 1024
export const maxEvalCases = 10_000
export const maxRepetitions = 100

const EvalRole = z.enum(['system', 'user', 'assistant', 'tool'])
type EvalRole = z.infer<typeof EvalRole>

/** A file block carries the text of its file, so that a case is whole without the folder it came from. */
export const ContentBlock = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('text'), value: Text(1_000_000) }),
  z.strictObject({ type: z.literal('file'), value: Text(1000, 1), text: Text(1_000_000) }),
])
export type ContentBlock = z.infer<typeof ContentBlock>

export const EvalMessage = z.strictObject({
  role: EvalRole,
  name: Text(200, 1).optional(),
  content: z.union([
    Text(1_000_000),
    z.array(ContentBlock).max(100),
    z.record(z.string(), z.unknown()),
  ]),
})
export type EvalMessage = z.infer<typeof EvalMessage>

const FixturePath = Text(1000, 1).refine(
  (path) =>
    !path.startsWith('/') &&
    !path.includes('\\') &&
    path
      .split('/')
      .every((part) => part !== '' && part !== '.' && part !== '..' && part !== '.git'),
  { error: 'Must be a path inside of the workspace, with "/" between its parts' },
)

/** What an attempt finds in its workspace. Files are written over the repository or the configuration's snapshot. */
const EvalWorkspace = z.strictObject({
  repository: Repository.omit({ token: true }).optional().describe('ref is the commit'),
  configurationId: Text(100, 1).optional(),
  files: z
    .array(z.strictObject({ path: FixturePath, text: Text(1_000_000) }))
    .max(500)
    .default([]),
})
type EvalWorkspace = z.infer<typeof EvalWorkspace>

export const EvalCaseId = Text(200, 1)

export const EvalCase = z.strictObject({
  id: EvalCaseId,
  expectedOutcome: Text(100_000, 1),
  inputMessages: z.array(EvalMessage).min(1).max(1000),
  expectedMessages: z.array(EvalMessage).max(1000).default([]),
  conversationId: Text(200, 1).optional(),
  target: Text(100, 1).optional().describe('Only for this target'),
  evaluators: z.array(EvaluatorConfig).max(maxEvaluators),
  required: z.boolean().default(false).describe('The gate needs it passed'),
  repetitions: z.number().int().min(1).max(maxRepetitions).default(1),
  workspace: EvalWorkspace.optional(),
})
export type EvalCase = z.infer<typeof EvalCase>

export const EvalSuite = z.strictObject({
  dataset: Text(200, 1),
  description: Text(4000).optional(),
  target: Text(100, 1).optional().describe('Run against it unless a run names others'),
  cases: z.array(EvalCase).max(maxEvalCases),
})
export type EvalSuite = z.infer<typeof EvalSuite>

/** A mistake or a doubt. `location` is spelled as the file is: `evalcases[2].input_messages[0].role`. */
export const EvalProblem = z.object({
  severity: z.enum(['error', 'warning']),
  filePath: z.string(),
  location: z.string().describe("'' if it is about the whole file"),
  message: z.string(),
  line: z.number().int().optional(),
  column: z.number().int().optional(),
})
export type EvalProblem = z.infer<typeof EvalProblem>

const EvalFile = z.strictObject({ path: Text(1000, 1), content: z.string().max(maxEvalFileBytes) })
export type EvalFile = z.infer<typeof EvalFile>

const maxEvalFiles = 500
/** The folder of an eval, as far as it is needed: the suite, its targets, and whatever they name. */
export const EvalFiles = z.strictObject({
  files: z.array(EvalFile).min(1).max(maxEvalFiles),
  suite: Text(1000, 1).optional().describe('The path of the eval file'),
  targets: Text(1000, 1).optional().describe('The path of the targets file'),
  variables: z
    .record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,99}$/), z.string().max(10_000))
    .default({})
    .describe('What ${{ NAME }} of the targets file may name; nothing else is looked up'),
})
export type EvalFiles = z.infer<typeof EvalFiles>

export const EvalChecked = z.object({
  valid: z.boolean().describe('Whether there is no error; warnings do not count'),
  problems: z.array(EvalProblem),
  suite: EvalSuite.nullable().describe(
    'Without the cases that have errors; null: none could be read',
  ),
  digest: z.string().nullable().describe("The suite's: runs of equal suites can be compared"),
  targets: z.array(Target).describe('Without those that have errors'),
})
export type EvalChecked = z.infer<typeof EvalChecked>
