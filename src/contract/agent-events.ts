import { z } from 'zod'
import { Sha256 } from './artifact.ts'
import { DiffReport } from './diff.ts'
import { maxStepCostUsd, ReportedMs, StepCount } from './reported.ts'
import { turnEnds } from './turn.ts'
import { SkillRead } from './workspace-skill.ts'

/** The name of a tree in git. */
const Tree = z.string().regex(/^[0-9a-f]{40}([0-9a-f]{24})?$/)

const turnId = z.string().nullable()
const part = { turnId, sessionId: z.string(), messageId: z.string(), partId: z.string() }
const toolPart = {
  ...part,
  tool: z.string(),
  callId: z.string(),
  input: z.unknown(),
  /** The input is shown in part only. */
  shortened: z.boolean().optional(),
  /** Who uses it inside OpenCode. Absent: not known, or an older agent. */
  agent: z.string().max(200).optional(),
}

/** What only the sandbox can tell. Order and completeness are the agent's; the session numbers and stores them. */
export const agentEventKinds = {
  'opencode.started': z.object({ version: z.string(), startMs: ReportedMs, restart: z.boolean() }),
  'opencode.died': z.object({ code: z.number().nullable(), signal: z.string().nullable() }),
  /** Coalesced to at most four a second per part. A hint: `message.text` has the whole text. */
  'message.delta': z.object({ ...part, field: z.string(), delta: z.string() }),
  'message.text': z.object({ ...part, text: z.string(), reasoning: z.boolean() }),
  'tool.started': z.object(toolPart),
  'tool.completed': z.object({
    ...toolPart,
    title: z.string(),
    output: z.string(),
    truncated: z.boolean(),
    durationMs: ReportedMs,
    /** Of a tool that changes files: the hash of evidenceRecordText, from the whole input. Absent: an older agent. */
    recordHash: Sha256.optional(),
  }),
  'tool.failed': z.object({ ...toolPart, error: z.string(), durationMs: ReportedMs }),
  'step.finished': z.object({
    ...part,
    reason: z.string(),
    tokens: z.object({
      input: StepCount,
      output: StepCount,
      reasoning: StepCount,
      cacheRead: StepCount,
      cacheWrite: StepCount,
    }),
    cost: z.number().min(0).max(maxStepCostUsd),
    /** The trees of OpenCode's snapshots before and after the step. Absent: an older agent. */
    snapshots: z
      .object({
        from: Tree.nullable().optional().describe('Absent: its beginning was not heard'),
        to: Tree.nullable(),
      })
      .optional(),
  }),
  'gate.bypassed': z.object({ ...toolPart }),
  'manifest.applied': z.object({
    version: z.string(),
    files: z.array(
      z.object({
        path: z.string(),
        sha256: z.string(),
        action: z.enum(['written', 'kept', 'skipped', 'repaired', 'removed']),
      }),
    ),
  }),
  'skill.read': SkillRead,
  'turn.ended': z.object({
    turnId: z.string(),
    state: z.enum(turnEnds),
    reason: z.string().nullable(),
    text: z.string().nullable(),
    diff: DiffReport.nullable(),
    /** A TurnPatch, looked at on its own: the end counts, whatever became of its patch. */
    patch: z.unknown().optional(),
  }),
  'agent.notice': z.object({ message: z.string() }),
} as const

export type AgentEventKind = keyof typeof agentEventKinds

/** No event is larger: the agent shortens long outputs and says so. */
export const maxEventBytes = 256 * 1024
export const maxDeltasPerSecond = 4
