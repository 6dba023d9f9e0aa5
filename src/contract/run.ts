import { z } from 'zod'
import { CheckpointId, OrganisationId, RunId, SessionId, Text } from './ids.ts'

export const RunStatus = z.enum([
  'created',
  'planned',
  'running',
  'needs-human',
  'completed',
  'failed',
  'blocked',
  'cancelled',
])
export type RunStatus = z.infer<typeof RunStatus>

export const runEnds = ['completed', 'failed', 'blocked', 'cancelled'] as const
export const RunEnd = z.enum(runEnds)
export type RunEnd = z.infer<typeof RunEnd>

const labels = {
  workflow: Text(100, 1).optional(),
  phase: Text(100, 1).optional(),
  agent: Text(100, 1).optional(),
  subagent: Text(100, 1).optional(),
}

export const RunCreate = z.strictObject({ intent: Text(200_000, 1), ...labels })
export type RunCreate = z.infer<typeof RunCreate>

/** A run without a sandbox: it gets a session without one. */
export const LoneRunCreate = RunCreate.extend({
  project: z
    .string()
    .regex(/^[a-z0-9][a-z0-9._-]{0,63}$/, { error: 'Lower-case letters, digits, ".", "_" and "-"' })
    .default('default'),
})
export type LoneRunCreate = z.infer<typeof LoneRunCreate>

export const Run = z.object({
  id: RunId,
  sessionId: SessionId,
  organisationId: OrganisationId,
  project: z.string(),
  intent: z.string(),
  workflow: z.string().nullable(),
  phase: z.string().nullable(),
  agent: z.string().nullable(),
  subagent: z.string().nullable(),
  adapter: z.literal('opencode'),
  model: z.string(),
  status: RunStatus,
  outcome: RunEnd.nullable().describe('Equals the status once the run has ended'),
  reason: z.string().nullable().describe('Why it waits or how it ended'),
  waitsFor: z.array(z.string()).describe('What a person must do, while the run needs one'),
  latestCheckpointId: CheckpointId.nullable(),
  createdAt: z.number(),
  updatedAt: z.number(),
  completedAt: z.number().nullable(),
})
export type Run = z.infer<typeof Run>

/** As the list over all sessions shows it: of a long intent the beginning. */
export const RunSummary = Run.omit({ waitsFor: true })
export type RunSummary = z.infer<typeof RunSummary>

export const RunChange = z.strictObject({
  status: z.enum(['planned', 'running']),
  phase: Text(100, 1).optional(),
  reason: Text(2000).default(''),
})
export type RunChange = z.infer<typeof RunChange>

export const RunFinish = z.strictObject({
  status: RunEnd,
  outcome: RunEnd.optional().describe('If given it must equal the status'),
  reason: Text(2000).default(''),
})
export type RunFinish = z.infer<typeof RunFinish>

/** What callers may add to a timeline. Everything else is written by the control plane itself. */
export const callerEventKinds = [
  'phase.started',
  'phase.stopped',
  'agent.invoked',
  'skill.injected',
  'memory.read',
  'memory.written',
  'artifact.read',
  'artifact.written',
  'verification.started',
  'verification.ended',
  'error.recorded',
] as const

export const runEventKinds = [
  'run.created',
  'run.started',
  'run.changed',
  'run.resumed',
  'run.stopped',
  'turn.started',
  'turn.ended',
  'checkpoint.saved',
  'tool.requested',
  'tool.completed',
  'tool.failed',
  'permission-decision',
  'permission.requested',
  'permission.approved',
  'permission.denied',
  'permission.revoked',
  'operation-execution',
  'ability.started',
  'ability.step',
  'ability.ended',
  'snapshot.stored',
  'change.recorded',
  'change.accepted',
  'change.rejected',
  'evidence.mismatch',
  'budget.warned',
  'budget.spent',
  'budget.raised',
  'budget.corrected',
  ...callerEventKinds,
] as const
export const RunEventKind = z.enum(runEventKinds)
export type RunEventKind = z.infer<typeof RunEventKind>

/** `hash` covers the hash before it, number, time, kind and the stored bytes of `data`. */
export const RunEvent = z.object({
  seq: z.number().int(),
  at: z.number(),
  kind: RunEventKind,
  data: z.record(z.string(), z.unknown()),
  previousHash: z.string(),
  hash: z.string(),
})
export type RunEvent = z.infer<typeof RunEvent>

export const RunEventAdd = z.strictObject({
  kind: z.enum(callerEventKinds),
  data: z
    .record(z.string().max(100), z.unknown())
    .default({})
    .describe('Ids of memory or artifacts, results of verifications; at most 64 KiB of JSON'),
})
export type RunEventAdd = z.infer<typeof RunEventAdd>
export const maxRunEventBytes = 64 * 1024

export const CheckpointCreate = z.strictObject({
  label: Text(200, 1),
  state: z
    .unknown()
    .refine((state) => state !== undefined, { error: 'Required' })
    .describe('Any JSON, at most 256 KiB'),
})
export type CheckpointCreate = z.infer<typeof CheckpointCreate>
export const maxCheckpointBytes = 256 * 1024

export const Checkpoint = z.object({
  id: CheckpointId,
  runId: RunId,
  label: z.string(),
  state: z.unknown(),
  createdAt: z.number(),
})
export type Checkpoint = z.infer<typeof Checkpoint>

export const RunResume = z.strictObject({
  checkpointId: CheckpointId.optional().describe('Default: the latest'),
})
export type RunResume = z.infer<typeof RunResume>

export const EvidenceSummary = z.object({
  verifications: z.object({
    started: z.number().int(),
    passed: z.number().int().describe('Ended with evidence, or said to have passed by a caller'),
    failed: z.number().int(),
  }),
  artifacts: z.number().int(),
  snapshots: z.number().int(),
  toolCalls: z.object({
    requested: z.number().int(),
    completed: z.number().int(),
    failed: z.number().int(),
  }),
  decisions: z.object({
    allow: z.number().int(),
    ask: z.number().int(),
    deny: z.number().int(),
  }),
  changes: z.number().int().describe('Events of changes, superseded ones too'),
  mismatches: z
    .number()
    .int()
    .describe('Tool parts that read otherwise in the sandbox than over the link'),
  lastVerification: z.record(z.string(), z.unknown()).nullable(),
})
export type EvidenceSummary = z.infer<typeof EvidenceSummary>

export const TimelineCheck = z.object({
  ok: z.boolean(),
  entries: z.number().int(),
  problems: z.array(
    z.object({
      seq: z.number().int().nullable().describe('The entry that is wrong; null: the head'),
      problem: z.string(),
    }),
  ),
  head: z
    .object({ seq: z.number().int(), hash: z.string(), recordedAt: z.number() })
    .nullable()
    .describe('The signed head in the ledger; null if it has not arrived yet'),
})
export type TimelineCheck = z.infer<typeof TimelineCheck>
