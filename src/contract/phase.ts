import { z } from 'zod'
import { KeyId, Text } from './ids.ts'
import { SessionCreate } from './session.ts'

/** The phases of a change, in their order. */
export const Phase = z.enum([
  'explore',
  'proposal',
  'spec',
  'design',
  'tasks',
  'apply-progress',
  'verify',
  'archive',
])
export type Phase = z.infer<typeof Phase>

/** What a team calls one piece of work: it has at most one artifact per phase. */
export const ChangeName = z
  .string()
  .regex(/^[a-z0-9][a-z0-9._-]{0,99}$/, { error: 'Lower-case letters, digits, ".", "_" and "-"' })

export const topicKey = (change: string, phase: Phase): string => `sdd/${change}/${phase}`

export const ChangePlace = z.strictObject({ project: SessionCreate.shape.project })

/** In characters. As JSON it must still fit into a request. */
const maxPhaseContent = 1_000_000

const Content = Text(maxPhaseContent).refine((text) => text.trim() !== '', {
  error: 'Must not be empty: a phase counts as done once it has an artifact',
})

export const PhaseSave = ChangePlace.extend({
  content: Content,
  expectedRevision: z
    .number()
    .int()
    .min(0)
    .optional()
    .describe('Refused if the newest revision is another; 0: there is none yet'),
})
export type PhaseSave = z.infer<typeof PhaseSave>

const PhaseDecision = z.enum(['approved', 'rejected'])
type PhaseDecision = z.infer<typeof PhaseDecision>

export const PhaseApprove = ChangePlace.extend({
  sha256: z
    .string()
    .regex(/^[0-9a-f]{64}$/, { error: 'The sha256 of the artifact, in hexadecimal' })
    .describe('Of what was read: if the newest revision is another, nothing is approved'),
  decision: PhaseDecision.default('approved'),
  reason: Text(2000).default(''),
})
export type PhaseApprove = z.infer<typeof PhaseApprove>

/** One member's last word on one revision. */
export const PhaseApproval = z.object({
  phase: Phase,
  revision: z.number().int(),
  sha256: z.string(),
  decision: PhaseDecision,
  reason: z.string(),
  keyId: KeyId,
  owner: z.string(),
  createdAt: z.number(),
})
export type PhaseApproval = z.infer<typeof PhaseApproval>

/** What is known of an artifact without its content. */
export const PhaseArtifact = z.object({
  project: z.string(),
  change: z.string(),
  phase: Phase,
  topicKey: z.string(),
  revision: z.number().int(),
  sha256: z.string(),
  bytes: z.number().int(),
  savedBy: z.string().describe('The key that saved it, or the session in which an agent did'),
  createdAt: z.number(),
})
export type PhaseArtifact = z.infer<typeof PhaseArtifact>

export const WholePhaseArtifact = PhaseArtifact.extend({
  content: z.string(),
  isNewest: z.boolean(),
  approvals: z.array(PhaseApproval).describe('Of this revision'),
})
export type WholePhaseArtifact = z.infer<typeof WholePhaseArtifact>

const staleSince = z
  .number()
  .nullable()
  .describe('Since when an earlier phase has changed after it was saved. A hint: it blocks nothing')

export const ListedPhaseArtifact = PhaseArtifact.extend({
  staleSince,
  approved: z.boolean().describe('Somebody has approved this revision and nobody has rejected it'),
})
export type ListedPhaseArtifact = z.infer<typeof ListedPhaseArtifact>

/** What the phases of a change are and need; the same for every change. */
export const Workflow = z.object({
  change: z.string(),
  phases: z.array(z.object({ phase: Phase, topicKey: z.string(), requires: z.array(Phase) })),
})
export type Workflow = z.infer<typeof Workflow>

/** Whether a phase may be worked on: its prerequisites have artifacts. Whether it has one itself does not matter. */
export const PhaseReadiness = z.object({
  project: z.string(),
  change: z.string(),
  phase: Phase,
  topicKey: z.string(),
  ready: z.boolean(),
  present: z.boolean().describe('It has an artifact itself'),
  satisfied: z.array(z.string()).describe('Topic keys of prerequisites that are there'),
  missing: z.array(z.string()).describe('Topic keys of prerequisites that are not'),
  hint: z.string().describe('What may be done next'),
})
export type PhaseReadiness = z.infer<typeof PhaseReadiness>

export const ChangeStatus = z.object({
  project: z.string(),
  change: z.string(),
  present: z.array(Phase),
  missing: z.array(Phase),
  next: Phase.nullable().describe('The first missing phase that is ready; null: none is missing'),
  hint: z.string().describe('What may be done next'),
  artifacts: z.array(ListedPhaseArtifact).describe('In the order of the phases'),
})
export type ChangeStatus = z.infer<typeof ChangeStatus>

export const ChangeRow = z.object({
  project: z.string(),
  change: z.string(),
  present: z.array(Phase),
  next: Phase.nullable(),
  updatedAt: z.number(),
})
export type ChangeRow = z.infer<typeof ChangeRow>

export const PhaseImport = ChangePlace.extend({
  dryRun: z.boolean().default(false).describe('Says what would happen and stores nothing'),
  artifacts: z
    .array(z.strictObject({ change: ChangeName, phase: Phase, content: Content }))
    .min(1)
    .max(200),
})
export type PhaseImport = z.infer<typeof PhaseImport>

export const PhaseImported = z.object({
  dryRun: z.boolean(),
  items: z.array(
    z.object({
      topicKey: z.string(),
      outcome: z.enum(['created', 'updated', 'unchanged']),
      revision: z.number().int().describe('That it has now, or would have'),
    }),
  ),
})
export type PhaseImported = z.infer<typeof PhaseImported>
