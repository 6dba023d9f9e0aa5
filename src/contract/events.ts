import { z } from 'zod'
import { agentEventKinds } from './agent-events.ts'
import { BudgetCorrection } from './budget.ts'
import { EvidenceMismatch } from './change-ledger.ts'
import { DiagnosticCode, ProofMode } from './evidence.ts'
import { RunStatus } from './run.ts'
import { SandboxState } from './sandbox.ts'
import { SkillOutcome } from './skill-usage.ts'

/** What the control plane itself has decided or seen. */
const sessionEventKinds = {
  'session.created': z.object({ project: z.string(), title: z.string(), provider: z.string() }),
  /** It was booted before it was asked for. */
  'session.claimed': z.object({ project: z.string(), title: z.string() }),
  'session.closed': z.object({ reason: z.string() }),
  'sandbox.changed': z.object({
    state: SandboxState,
    generation: z.number().int(),
    reason: z.string().nullable(),
  }),
  /** A new generation instead of another. `lost` says in words what it is without. */
  'sandbox.replaced': z.object({
    from: z.number().int(),
    to: z.number().int(),
    reason: z.string(),
    snapshotId: z.string().nullable(),
    snapshotAt: z.number().nullable(),
    interruptedTurnId: z.string().nullable(),
    lost: z.string(),
  }),
  'sandbox.hibernated': z.object({
    generation: z.number().int(),
    snapshotId: z.string(),
    bytes: z.number().int(),
    reason: z.string(),
  }),
  /** It could not be saved, so it goes on running. `retryAt` null: nothing more is tried while it stays unused. */
  'sandbox.kept': z.object({
    generation: z.number().int(),
    reason: z.string(),
    retryAt: z.number().nullable(),
  }),
  /** It had to stop, and what it changed since its last snapshot could not be saved. */
  'sandbox.unsaved': z.object({ generation: z.number().int(), reason: z.string() }),
  'link.connected': z.object({ generation: z.number().int(), agent: z.string() }),
  'link.disconnected': z.object({ generation: z.number().int() }),
  'turn.queued': z.object({ turnId: z.string(), position: z.number().int() }),
  'turn.started': z.object({ turnId: z.string(), prompt: z.string() }),
  'turn.steered': z.object({ turnId: z.string(), prompt: z.string() }),
  'run.changed': z.object({
    runId: z.string(),
    status: RunStatus,
    reason: z.string().nullable(),
  }),
  /** A message speaks of it. Nothing is started by that. */
  'ability.proposed': z.object({ ability: z.string() }),
  'ability.started': z.object({
    executionId: z.string(),
    ability: z.string(),
    parentId: z.string().nullable(),
    runId: z.string(),
  }),
  /** A step has begun, ended, or asks. */
  'ability.step': z.object({
    executionId: z.string(),
    stepId: z.string(),
    status: z.enum(['running', 'asking', 'completed', 'failed', 'skipped']),
    error: z.string().nullable(),
    progress: z.string(),
  }),
  'ability.ended': z.object({
    executionId: z.string(),
    ability: z.string(),
    status: z.enum(['completed', 'failed', 'cancelled']),
    error: z.string().nullable(),
  }),
  'call.started': z.object({
    tool: z.string(),
    toolCallId: z.string(),
    operationId: z.string(),
    attempt: z.number().int(),
  }),
  'call.ended': z.object({
    tool: z.string(),
    toolCallId: z.string(),
    operationId: z.string(),
    state: z.enum(['settled', 'failed', 'unknown']),
    success: z.boolean().nullable(),
    durationMs: z.number(),
  }),
  'call.conflict': z.object({ tool: z.string(), toolCallId: z.string() }),
  'artifact.stored': z.object({
    id: z.string(),
    path: z.string(),
    size: z.number().int(),
    contentType: z.string(),
  }),
  'automation.completed': z.object({
    runId: z.string(),
    completionId: z.string(),
    outcome: z.enum(['succeeded', 'failed', 'needs_human']),
  }),
  'snapshot.stored': z.object({
    id: z.string(),
    target: z.enum(['configuration', 'session']),
    bytes: z.number().int(),
    message: z.string(),
  }),
  /** What came of a skill that the session began with. */
  'skill.used': z.object({
    skillId: z.string(),
    name: z.string(),
    version: z.number().int(),
    runId: z.string(),
    outcome: SkillOutcome,
  }),
  /** A person gave values. Names only. */
  'env.submitted': z.object({ keys: z.array(z.string()) }),
  /** Given up after a day. */
  'webhook.failed': z.object({
    webhookId: z.string(),
    deliveryId: z.string(),
    event: z.string(),
    attempts: z.number().int(),
    error: z.string(),
  }),
  /** 80 % of a measure are used. */
  'budget.warned': z.object({ measure: z.string(), used: z.number(), limit: z.number() }),
  'budget.spent': z.object({ reason: z.string() }),
  /** The vendor did not say what a model call used, so the most that it can have used was counted. */
  'budget.estimated': z.object({
    callId: z.string(),
    turnId: z.string().nullable(),
    model: z.string(),
    tokens: z.number(),
    reason: z.string(),
  }),
  /** What the sandbox reports of a turn is not what its model calls used by the vendor's word, which counts. */
  'budget.mismatch': z.object({
    turnId: z.string(),
    counted: z.number(),
    reported: z.number(),
  }),
  /** A person has put right what was counted. */
  'budget.corrected': BudgetCorrection,
  /** What OpenCode has stored of a turn was collected and judged. */
  'changes.collected': z.object({
    collectId: z.string(),
    turnId: z.string(),
    runId: z.string(),
    mode: ProofMode,
    candidates: z.number().int(),
    imported: z.number().int(),
    attempted: z.number().int().optional().describe('Absent in events of an older release'),
    upgraded: z.number().int(),
    wouldUpgrade: z.number().int().optional(),
    skipped: z.partialRecord(DiagnosticCode, z.number().int()).optional().describe('By reason'),
    reads: z.number().int().optional(),
    readMs: z.number().optional(),
  }),
  /** A tool part reads otherwise in the sandbox's own records than over the link. */
  'evidence.mismatch': EvidenceMismatch.extend({ runId: z.string(), turnId: z.string() }),
  'approval.requested': z.object({
    approvalId: z.string(),
    runId: z.string(),
    title: z.string(),
    deadlineAt: z.number(),
  }),
  'approval.resolved': z.object({
    approvalId: z.string(),
    runId: z.string(),
    state: z.enum(['approved', 'rejected', 'cancelled']),
    actor: z.string(),
  }),
  'gate.asked': z.object({
    askId: z.string(),
    approvalId: z.string(),
    tool: z.string(),
    callId: z.string(),
    input: z.unknown(),
    deadlineAt: z.number(),
  }),
  'gate.decided': z.object({
    askId: z.string(),
    tool: z.string(),
    callId: z.string(),
    decision: z.enum(['allow', 'deny']),
    reason: z.string(),
    rule: z.string(),
    actor: z.string(),
    waitedMs: z.number(),
  }),
} as const

export const eventKinds = { ...agentEventKinds, ...sessionEventKinds }
export type EventKind = keyof typeof eventKinds
export type EventData<K extends EventKind> = z.infer<(typeof eventKinds)[K]>

export const SessionEvent = z.object({
  seq: z.number().int(),
  at: z.number(),
  kind: z.enum(Object.keys(eventKinds) as [EventKind, ...EventKind[]]),
  data: z.record(z.string(), z.unknown()).describe('What it has depends on its kind'),
})
export type SessionEvent = z.infer<typeof SessionEvent>
