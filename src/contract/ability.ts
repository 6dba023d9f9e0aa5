import { z } from 'zod'
import { maxAbilityBytes } from './ability-folder.ts'
import { Text } from './ids.ts'
import { Project } from './project.ts'

/**
 * An ability: a workflow that a team writes in YAML and that an agent cannot skip. The keys are spelled as people write them
 * in the file. `src/core/abilities/definition.ts` reads it; what a schema cannot say is checked there.
 */

export { maxAbilityBytes }
const maxSteps = 1000

/** Whoever brings keys of their own begins them with `x-`. */
const own = <T extends z.ZodRawShape>(shape: T) =>
  z
    .object(shape)
    .catchall(z.unknown())
    .superRefine((value, context) => {
      for (const key of Object.keys(value))
        if (!Object.hasOwn(shape, key) && !key.startsWith('x-'))
          context.addIssue({
            code: 'custom',
            path: [key],
            message: 'There is no such field; keys of your own begin with "x-"',
          })
    })

export const AbilityName = z
  .string()
  .max(200)
  .regex(/^[a-z0-9-]+(\/[a-z0-9-]+)*$/, {
    error: 'A name is lower-case letters, digits and "-", in parts with "/" between them',
  })
export type AbilityName = z.infer<typeof AbilityName>

/** `workspace:NAME` is the one of the workspace, also where a stored one has its name. */
export const OfferedName = z
  .string()
  .max(210)
  .regex(/^(workspace:)?[a-z0-9-]+(\/[a-z0-9-]+)*$/, {
    error: 'The name of an ability, or "workspace:" before the name of one of the workspace',
  })
export type OfferedName = z.infer<typeof OfferedName>

const StepId = z
  .string()
  .max(100)
  .regex(/^[a-z0-9]+(-[a-z0-9]+)*$/, {
    error: 'A step id is lower-case letters and digits, with "-" between them',
  })

/** 500ms, 30s, 5m, 1h, 2m30s; a plain number is milliseconds. */
export const Duration = z.union([z.number().int().min(1).max(86_400_000), z.string().max(40)], {
  error: 'A duration is such as 500ms, 30s, 5m, 1h or 2m30s; a plain number is milliseconds',
})
export type Duration = z.infer<typeof Duration>

export const OnFailure = z.enum(['stop', 'continue', 'retry', 'ask'])
export type OnFailure = z.infer<typeof OnFailure>
export const AbilityEnforcement = z.enum(['strict', 'normal', 'loose'])
export type AbilityEnforcement = z.infer<typeof AbilityEnforcement>

export const AbilityInput = own({
  type: z.enum(['string', 'number', 'boolean', 'array', 'object']).default('string'),
  required: z.boolean().default(false),
  default: z.unknown().optional(),
  description: Text(2000).optional(),
  pattern: Text(1000, 1).optional().describe('A regular expression in RE2 syntax, for texts'),
  enum: z
    .array(z.union([z.string(), z.number(), z.boolean()]))
    .min(1)
    .max(200)
    .optional(),
  minLength: z.number().int().min(0).optional().describe('Of a text or a list'),
  maxLength: z.number().int().min(0).optional(),
  min: z.number().optional(),
  max: z.number().optional(),
  secret: z.boolean().default(false).describe('Never shown in plans, logs or results'),
})
export type AbilityInput = z.infer<typeof AbilityInput>

const Command = Text(32 * 1024, 1)
const stepShape = {
  id: StepId,
  description: Text(2000).optional(),
  needs: z.array(StepId).max(maxSteps).default([]),
  when: Text(2000, 1).optional(),
  timeout: Duration.optional(),
  on_failure: OnFailure.optional(),
  max_retries: z.number().int().min(0).max(20).optional(),
}

export const ScriptStep = own({
  ...stepShape,
  type: z.literal('script'),
  run: Command,
  cwd: Text(1000, 1).optional(),
  env: z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,99}$/), Text(8192)).default({}),
  validation: own({
    exit_code: z.number().int().min(0).max(255).optional(),
    stdout_contains: Text(4096, 1).optional(),
    stderr_contains: Text(4096, 1).optional(),
    file_exists: Text(1000, 1).optional(),
  }).optional(),
  network: z
    .boolean()
    .optional()
    .describe('It needs the network, though its command does not show it; absent: as the settings'),
})
export type ScriptStep = z.infer<typeof ScriptStep>

export const AgentStep = own({
  ...stepShape,
  type: z.literal('agent'),
  agent: Text(200, 1),
  prompt: Command,
  context: z.array(Text(8192, 1)).max(100).default([]),
  tools: z.array(Text(200, 1)).max(200).optional().describe('Of the tools of its agent only these'),
  summarize: z.union([z.boolean(), Text(2000, 1)]).default(false),
})
export type AgentStep = z.infer<typeof AgentStep>

export const SkillStep = own({
  ...stepShape,
  type: z.literal('skill'),
  skill: Text(200, 1),
  inputs: z.record(z.string().max(100), z.unknown()).default({}),
  summarize: z.union([z.boolean(), Text(2000, 1)]).default(false),
})
export type SkillStep = z.infer<typeof SkillStep>

const ApprovalStep = own({
  ...stepShape,
  type: z.literal('approval'),
  prompt: Command,
  options: z
    .array(own({ label: Text(200, 1), value: Text(200, 1) }))
    .min(1)
    .max(20)
    .optional(),
  quorum: z
    .number()
    .int()
    .min(1)
    .max(20)
    .optional()
    .describe('So many people, none of them who started it; absent: anybody'),
})
type ApprovalStep = z.infer<typeof ApprovalStep>

const WorkflowStep = own({
  ...stepShape,
  type: z.literal('workflow'),
  workflow: AbilityName,
  inputs: z.record(z.string().max(100), z.unknown()).default({}),
})
type WorkflowStep = z.infer<typeof WorkflowStep>

export const AbilityStep = z.discriminatedUnion('type', [
  ScriptStep,
  AgentStep,
  SkillStep,
  ApprovalStep,
  WorkflowStep,
])
export type AbilityStep = z.infer<typeof AbilityStep>

export const AbilitySettings = own({
  timeout: Duration.optional(),
  parallel: z.boolean().default(false),
  enforcement: AbilityEnforcement.default('strict'),
  on_failure: OnFailure.default('stop'),
  approval: z.enum(['plan', 'checkpoint', 'none']).default('none'),
  network: z.boolean().default(false).describe('Its scripts and hooks need the network'),
})
export type AbilitySettings = z.infer<typeof AbilitySettings>

/** As the file says it. Keys that nobody knows at the top are left, with a warning. */
export const AbilityDocument = z.looseObject({
  name: AbilityName.optional().describe('Absent: from the path of the file'),
  description: Text(2000, 1),
  version: Text(100, 1).optional(),
  triggers: own({
    keywords: z.array(Text(200, 1)).max(100).default([]),
    patterns: z.array(Text(1000, 1)).max(50).default([]),
  }).optional(),
  inputs: z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_-]{0,63}$/), AbilityInput).default({}),
  steps: z.array(AbilityStep).min(1, 'An ability needs at least one step').max(maxSteps),
  settings: AbilitySettings.prefault({}),
  hooks: own({
    before: z.array(Command).max(20).default([]),
    after: z.array(Command).max(20).default([]),
  }).prefault({}),
  compatible_agents: z.array(Text(200, 1)).max(100).optional(),
  exclusive_agent: Text(200, 1).optional(),
})
export type AbilityDocument = z.infer<typeof AbilityDocument>

export const AbilityProblemCode = z.enum([
  'SCHEMA_ERROR',
  'DUPLICATE_ID',
  'MISSING_DEPENDENCY',
  'CIRCULAR_DEPENDENCY',
  'INVALID_REGEX',
  'INVALID_CONDITION',
  'INVALID_DURATION',
  'INVALID_DEFAULT',
  'UNSAFE_PLACEHOLDER',
  'UNKNOWN_PLACEHOLDER',
])
export type AbilityProblemCode = z.infer<typeof AbilityProblemCode>

/** A mistake in an ability, and where it is. */
export const AbilityProblem = z.object({
  path: z.string(),
  line: z.number().int(),
  column: z.number().int(),
  code: AbilityProblemCode,
  message: z.string(),
})
export type AbilityProblem = z.infer<typeof AbilityProblem>

export const InputProblemCode = z.enum([
  'MISSING_INPUT',
  'UNKNOWN_INPUT',
  'TYPE_MISMATCH',
  'PATTERN_MISMATCH',
  'ENUM_MISMATCH',
  'MIN_LENGTH',
  'MAX_LENGTH',
  'MIN_VALUE',
  'MAX_VALUE',
])
export type InputProblemCode = z.infer<typeof InputProblemCode>

export const InputProblem = z.object({
  path: z.string().describe('inputs.NAME'),
  code: InputProblemCode,
  message: z.string(),
})
export type InputProblem = z.infer<typeof InputProblem>

/** What an execution works with, checked and with defaults: values as JSON has them. */
export type InputValues = Readonly<Record<string, unknown>>

export const StepStatus = z.enum(['completed', 'failed', 'skipped'])
export type StepStatus = z.infer<typeof StepStatus>

/** One file to be looked at; nothing is stored. */
export const AbilityCheck = z.strictObject({
  source: z.string().max(maxAbilityBytes).describe('The text of ability.yaml'),
  path: Text(1000)
    .optional()
    .describe('Where the file is, such as deploy/ability.yaml: the name, if the file has none'),
  project: Project.unwrap()
    .optional()
    .describe('Whose agents, skills and abilities its steps name; absent: of the organisation'),
})
export type AbilityCheck = z.infer<typeof AbilityCheck>

export const AbilityChecked = z.object({
  valid: z.boolean(),
  errors: z.array(AbilityProblem),
  warnings: z.array(z.string()),
  ability: z
    .object({
      name: AbilityName,
      definition: AbilityDocument.describe('With its defaults'),
      order: z.array(z.string()).describe('The ids of its steps, as they run one after the other'),
    })
    .nullable()
    .describe('null: it cannot be read'),
})
export type AbilityChecked = z.infer<typeof AbilityChecked>
