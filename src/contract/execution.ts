import { z } from 'zod'
import { AbilityEnforcement, OfferedName, AbilitySettings, OnFailure } from './ability.ts'
import { ApprovalId, ExecutionId, RunId, SessionId, Text } from './ids.ts'
import { Strategy } from './operation.ts'
import { Decision } from './permission.ts'

/**
 * An execution: one ability at work in a session, step after step, outside of the agent's process. The words of its states
 * are those of abilities; its run has the words of runs.
 */

/** Whether it still moves. While it waits for a person it is running, and `waitsFor` says for what. */
const ExecutionStatus = z.enum(['running', 'completed', 'failed', 'cancelled'])
type ExecutionStatus = z.infer<typeof ExecutionStatus>

/** pending: not begun. asking: it has failed, or nobody knows, and a person says how to go on. */
export const StepState = z.enum(['pending', 'running', 'asking', 'completed', 'failed', 'skipped'])
export type StepState = z.infer<typeof StepState>

/** What a person says of a step that asks. */
export const StepAnswer = z.enum(['retry', 'continue', 'skip', 'stop'])
export type StepAnswer = z.infer<typeof StepAnswer>

export const StepKind = z.enum(['script', 'agent', 'skill', 'approval', 'workflow'])
export type StepKind = z.infer<typeof StepKind>

export const ExecutionStep = z.object({
  stepId: z.string().describe('hooks.before.N and hooks.after.N are the hooks'),
  type: StepKind,
  part: z.enum(['before', 'step', 'after']),
  status: StepState,
  tries: z.number().int().describe('How often it was begun'),
  output: z.string().nullable(),
  error: z.string().nullable(),
  exitCode: z.number().int().nullable(),
  subject: z
    .string()
    .nullable()
    .describe('The operation, turn, approval or execution that does it'),
  startedAt: z.number().nullable(),
  completedAt: z.number().nullable(),
  durationMs: z.number().nullable(),
})
export type ExecutionStep = z.infer<typeof ExecutionStep>

export const Execution = z.object({
  id: ExecutionId,
  sessionId: SessionId,
  runId: RunId,
  ability: z.string(),
  version: z.number().int().nullable().describe('null: of the workspace'),
  hash: z.string().describe('Of its folder: what runs is this copy, whatever becomes of the file'),
  enforcement: AbilityEnforcement,
  parentId: ExecutionId.nullable().describe('The execution whose workflow step it is'),
  status: ExecutionStatus,
  inputs: z.record(z.string(), z.unknown()).describe('Secret ones are masked'),
  currentStep: z.string().nullable(),
  currentStepIndex: z.number().int().nullable(),
  progress: z.string().describe('Such as 2/5: steps that have ended, of all'),
  completedSteps: z.array(z.string()),
  pendingSteps: z.array(z.string()),
  waitsFor: z
    .array(
      z.object({
        executionId: ExecutionId.describe('This one, or one that a workflow step of it is'),
        stepId: z.string().nullable(),
        why: z.string(),
        approvalId: ApprovalId.nullable(),
      }),
    )
    .describe('What a person has to do, also in those that it has called'),
  planHash: z.string(),
  error: z.string().nullable(),
  startedAt: z.number(),
  completedAt: z.number().nullable(),
})
export type Execution = z.infer<typeof Execution>

/** With its steps: how they went. */
export const ExecutionRecord = Execution.extend({ steps: z.array(ExecutionStep) })
export type ExecutionRecord = z.infer<typeof ExecutionRecord>

/** Of the session: whether an ability runs, and where it is. */
export const AbilityStatus = z.object({
  active: z.boolean(),
  ability: z.string().nullable(),
  executionId: ExecutionId.nullable(),
  currentStep: z.string().nullable(),
  progress: z.string().nullable(),
  status: ExecutionStatus.nullable(),
})
export type AbilityStatus = z.infer<typeof AbilityStatus>

const ExecutionRequest = z.strictObject({
  version: z
    .number()
    .int()
    .min(1)
    .max(2 ** 31)
    .optional()
    .describe('Default: the newest'),
  inputs: z.record(z.string().max(100), z.unknown()).default({}),
  planHash: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .optional()
    .describe('Of the plan that was seen: if it is another one by now, nothing begins'),
  input: Text(32 * 1024)
    .default('')
    .describe('The words of whoever asks: {{input}}'),
})
export const ExecutionCreate = ExecutionRequest.extend({ ability: OfferedName })
export type ExecutionCreate = z.infer<typeof ExecutionCreate>

/** What an execution would do, without doing it. */
export const PlannedStep = z.object({
  stepId: z.string(),
  type: StepKind,
  part: z.enum(['before', 'step', 'after']),
  description: z.string().nullable(),
  needs: z.array(z.string()),
  runs: z
    .enum(['yes', 'no', 'depends'])
    .describe('no: its condition does not hold; depends: on what steps before it do'),
  when: z.string().nullable(),
  onFailure: OnFailure,
  timeoutMs: z.number().int(),
  what: z
    .string()
    .describe('The command, the prompt, the skill or the ability, filled as far as it is known'),
  decision: Decision.nullable().describe('Of a script, by the policy of today'),
  asks: z.boolean().describe('A person will be asked'),
  reason: z.string().nullable(),
  isolation: Strategy.nullable().describe('Of a script'),
  network: z.boolean().nullable().describe('Of a script: whether it can reach the network'),
  notEnforced: z.array(z.string()),
  notPinned: z
    .array(z.string())
    .describe('Files of the workspace that it runs: they may be others by then'),
  problem: z.string().nullable().describe('Why it cannot run as it is'),
})
export type PlannedStep = z.infer<typeof PlannedStep>

export const AbilityPlan = z.object({
  ability: z.string(),
  version: z.number().int().nullable(),
  hash: z.string(),
  planHash: z.string().describe('What an approval of the plan holds for'),
  enforcement: AbilityEnforcement,
  approval: AbilitySettings.shape.approval.unwrap(),
  parallel: z.boolean(),
  inputs: z.record(z.string(), z.unknown()).describe('With defaults; secret ones are masked'),
  guides: z.array(z.string()).describe('Files of hooks/before that its agents are given'),
  steps: z.array(PlannedStep),
})
export type AbilityPlan = z.infer<typeof AbilityPlan>

export const AbilityPlanRequest = ExecutionRequest.omit({ planHash: true }).extend({
  sessionId: SessionId.describe('Whose policy and sandbox count'),
})
export type AbilityPlanRequest = z.infer<typeof AbilityPlanRequest>

export const ExecutionCancel = z.strictObject({ reason: Text(2000).default('') })
export type ExecutionCancel = z.infer<typeof ExecutionCancel>

export const ExecutionResume = z.strictObject({
  stepId: Text(200, 1).describe('The step that asks'),
  answer: StepAnswer.describe(
    'retry: again; continue: it has failed, go on; skip: as if it had been skipped; stop: the execution fails',
  ),
  reason: Text(2000).default(''),
})
export type ExecutionResume = z.infer<typeof ExecutionResume>
