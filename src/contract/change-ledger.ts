// The ledger of a run's changes as callers see it: what was collected, what is kept of it, and which files may be
// reviewed and taken back. The events themselves are in change.ts.

import { z } from 'zod'
import { ChangeEvent, ChangeOperation, Diagnostic, ProofStatistics } from './change.ts'
import { evidenceLimits, ProofMode } from './evidence.ts'
import { ApprovalId, CollectId, OperationId, RunId, Text, TurnId } from './ids.ts'

/** How a collect ended. */
export const BackfillOutcome = z.enum([
  'imported',
  'duplicates-only',
  'no-history',
  'no-attribution',
  'manual-only',
  'skipped-capability',
  'transient-error',
  'unsafe-input',
])
export type BackfillOutcome = z.infer<typeof BackfillOutcome>

const count = z.number().int().min(0)

export const Collect = z.object({
  id: CollectId,
  turnId: TurnId,
  generation: count,
  mode: ProofMode,
  state: z.enum(['asked', 'stored', 'failed']),
  whileRunning: z.boolean().describe('The turn had not ended: its first steps'),
  outcome: BackfillOutcome.nullable(),
  reason: z.string().nullable(),
  candidates: count.describe('Changes of files that the tool parts name'),
  imported: count.describe('New events'),
  statistics: ProofStatistics.nullable(),
  diagnostics: z
    .array(Diagnostic)
    .describe('The first 1000; of older collects in a long list none. Never any content'),
  createdAt: z.number(),
  endedAt: z.number().nullable(),
})
export type Collect = z.infer<typeof Collect>

export const BackfillCreate = z.strictObject({
  turnId: TurnId.optional().describe('Default: all turns of the run'),
  mode: ProofMode.optional().describe("Lower than the deployment's; a higher one gets that"),
})
export type BackfillCreate = z.infer<typeof BackfillCreate>

export const Backfill = z.object({
  mode: ProofMode,
  collects: z.array(Collect).describe('Those that were asked for by this; more may follow'),
  skipped: z.array(z.object({ turnId: TurnId, outcome: BackfillOutcome, reason: z.string() })),
})
export type Backfill = z.infer<typeof Backfill>

export const BundleAnswer = z.object({
  accepted: z.boolean().describe('false: it was known already, or has not the form of a bundle'),
})
export type BundleAnswer = z.infer<typeof BundleAnswer>

/** A text of a change: where it can be read. */
export const TextLink = z.object({
  sha256: z.string(),
  sizeBytes: count,
  url: z.string().describe('GET with a key of the organisation'),
})
export type TextLink = z.infer<typeof TextLink>

export const ReviewedEvent = z.object({
  event: ChangeEvent,
  hash: z.string().describe('SHA-256 of the event as it is stored; it is in the timeline, too'),
  turnId: TurnId.nullable(),
  reviewable: z.boolean(),
  reasons: z.array(z.string()).describe('Why it is not'),
  before: TextLink.nullable(),
  after: TextLink.nullable(),
  recordedAt: z.number(),
})
export type ReviewedEvent = z.infer<typeof ReviewedEvent>

export const FileReview = z.object({
  path: z.string(),
  operation: z
    .union([ChangeOperation, z.literal('none')])
    .describe('Of all its changes together; none: it was not there before, and is not after them'),
  reviewable: z.boolean(),
  rejectable: z.boolean().describe('What is on the disk now is looked at when it is rejected'),
  reasons: z.array(z.string()).describe('Why it is not; the first 50'),
  decision: z
    .enum(['accepted', 'rejected', 'partly-rejected'])
    .nullable()
    .describe('What was last said of it as it is; rejecting may still be under way'),
  before: TextLink.nullable(),
  after: TextLink.nullable(),
  events: z.array(ReviewedEvent).describe('The newest ones, as many as a mebibyte holds'),
  earlierEvents: count.describe('Older ones that are not among them; an export has them all'),
})
export type FileReview = z.infer<typeof FileReview>

export const RunChanges = z.object({
  runId: RunId,
  mode: ProofMode.describe("The deployment's"),
  files: z.array(FileReview).describe('One page, in order of their first change'),
  nextCursor: z.string().nullable(),
  warnings: z.array(z.string()).describe('Of the run as a whole'),
  mismatches: count.describe('Tool parts that read otherwise in the sandbox than over the link'),
  fingerprint: z.string().describe('Equal for equal reviews. Without content'),
  collects: z.array(Collect).describe('The newest 100'),
})
export type RunChanges = z.infer<typeof RunChanges>

const maxText = evidenceLimits.bytesPerFile

const ImportedChange = z.strictObject({
  event: ChangeEvent,
  beforeContent: z.string().max(maxText).nullable().default(null),
  afterContent: z.string().max(maxText).nullable().default(null),
})
type ImportedChange = z.infer<typeof ImportedChange>

export const ChangeImport = z.strictObject({
  changes: z.array(ImportedChange).min(1).max(100),
})
export type ChangeImport = z.infer<typeof ChangeImport>

export const ChangeImported = z.object({ imported: count, duplicates: count })
export type ChangeImported = z.infer<typeof ChangeImported>

const reviewed = {
  paths: z.array(Text(4096, 1)).min(1).max(100).optional(),
  all: z.literal(true).optional().describe('Every file of the run'),
  reason: Text(2000).default(''),
}
const namesFiles = ({ paths, all }: { paths?: string[] | undefined; all?: true | undefined }) =>
  (paths === undefined) !== (all === undefined)

/** Whole files. */
export const ChangeReview = z
  .strictObject(reviewed)
  .refine(namesFiles, { error: 'Name either paths or all', path: ['paths'] })
export type ChangeReview = z.infer<typeof ChangeReview>

const HunkId = z.string().regex(/^hnk_[0-9a-f]{40}$/)

/** Whole files, or of one file some hunks. */
export const ChangeReject = z
  .strictObject({
    ...reviewed,
    hunks: z
      .array(HunkId)
      .min(1)
      .max(1000)
      .optional()
      .describe('Of the one file in `paths`, as `GET …/changes/hunks` names them'),
  })
  .refine(namesFiles, { error: 'Name either paths or all', path: ['paths'] })
  .refine(({ hunks, paths }) => hunks === undefined || paths?.length === 1, {
    error: 'Hunks are of one file: name it, and no other, in paths',
    path: ['hunks'],
  })
export type ChangeReject = z.infer<typeof ChangeReject>

export const HunksQuery = z.object({ path: z.string().min(1).max(4096) })

const HunkSide = z.object({ first: count.describe('Counted from 1'), lines: count })
const ChangeHunk = z.object({
  id: HunkId,
  stable: z
    .boolean()
    .describe(
      'false: another hunk of the file has the same lines and context, so neither can be rejected alone',
    ),
  before: HunkSide,
  after: HunkSide,
  rejected: z.boolean().describe('It was taken back'),
})
/** What a file has become, hunk by hunk. */
export const FileHunks = z.object({
  path: z.string(),
  rejectable: z.boolean(),
  reasons: z.array(z.string()).describe('Why hunks cannot be rejected'),
  hunks: z.array(ChangeHunk),
})
export type FileHunks = z.infer<typeof FileHunks>

export const RejectedFile = z.object({
  path: z.string(),
  state: z
    .enum(['applied', 'conflict', 'manual', 'planned', 'waiting', 'denied', 'failed', 'unknown'])
    .describe(
      'planned: the sandbox has it; waiting: for an approval, or to be resumed after it; manual: it is not proven, so nothing is done; unknown: nobody can say, see the operation',
    ),
  reason: z.string().nullable(),
  operationId: OperationId.nullable().describe('By which it is taken back'),
  approvalId: ApprovalId.nullable(),
})
export type RejectedFile = z.infer<typeof RejectedFile>

export const ChangesRejected = z.object({
  runId: RunId.nullable().describe('The run of the operations; null: there is nothing to do'),
  files: z.array(RejectedFile),
})
export type ChangesRejected = z.infer<typeof ChangesRejected>

export const ChangesAccepted = z.object({ accepted: z.array(z.string()) })
export type ChangesAccepted = z.infer<typeof ChangesAccepted>

/** A tool part that the sandbox's database and the link tell differently. Without content. */
export const EvidenceMismatch = z.object({
  partId: z.string(),
  tool: z.string(),
  what: z
    .enum(['never-seen', 'differs', 'gone'])
    .describe('Never came over the link; reads otherwise; came over the link and is not there'),
})
export type EvidenceMismatch = z.infer<typeof EvidenceMismatch>
