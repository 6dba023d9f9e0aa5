// One change of one file, and what was decided about it. The engine (core/evidence) makes all of this from a bundle and a
// delivery record; the session stores events in its ledger, shows them in reviews and puts them into exports. Events of
// other agents come in by an import and are never changed.

import { z } from 'zod'
import { Sha256 } from './artifact.ts'
import {
  DiagnosticCode,
  EvidenceCount as count,
  EvidencePath as path,
  ProofMode,
} from './evidence.ts'

const id = z.string().min(1).max(200)

/** Any other word is unsafe: it may be stored, and never makes a change rejectable. */
export const acceptedProofs = [
  'toolpart-chain',
  'opencode-snapshot',
  'inverse-edit-chain',
  'inverse-apply-patch-chain',
] as const
export const Proof = z.enum([...acceptedProofs, 'metadata-only-fallback'])
export type Proof = z.infer<typeof Proof>

export const Confidence = z.enum(['exact', 'high', 'medium', 'low', 'ambiguous'])
export type Confidence = z.infer<typeof Confidence>
export const ChangeOperation = z.enum(['create', 'modify', 'delete'])
export type ChangeOperation = z.infer<typeof ChangeOperation>

/** Of a stored text. The empty text has one too; null is: there is none. */
export const ContentRef = z.object({
  sha256: Sha256,
  sizeBytes: count,
  blobRef: z.string().max(200).describe('sha256: and the hash'),
})
export type ContentRef = z.infer<typeof ContentRef>

export const ContentState = z.object({
  exists: z.boolean().optional().describe('Absent: not known'),
  sha256: Sha256.optional(),
  sizeBytes: count.optional(),
  executable: z
    .literal(true)
    .optional()
    .describe('Its mode was 100755. Absent: 100644, or not known'),
  unavailableReason: z.string().max(200).optional(),
})
export type ContentState = z.infer<typeof ContentState>

/** One tool part's change of one file. `attributionMethod`, `source` and `evidenceProof` may be foreign words of an import. */
export const ChangeEvent = z.object({
  schemaVersion: z.literal(1),
  eventId: id,
  taskId: z.string().max(200).describe("The run's id"),
  taskRef: z.string().max(200),
  taskRefKind: z.enum(['canonical', 'display', 'unknown']),
  phase: z.enum(['work', 'review']),
  executionSeq: z.number().int().min(0),
  sessionId: z.string().max(200).describe("Gantry's session"),
  memberName: z.string().max(200),
  toolUseId: z.string().max(200),
  source: z
    .string()
    .max(100)
    .describe('opencode_toolpart_write, …_edit, …_apply_patch, or another'),
  operation: ChangeOperation,
  confidence: Confidence,
  workspaceRoot: path,
  filePath: path.describe('As the tool was given it'),
  relativePath: path,
  timestamp: z.iso.datetime(),
  toolStatus: z.string().max(40).nullable(),
  before: ContentRef.nullable(),
  after: ContentRef.nullable(),
  beforeState: ContentState,
  afterState: ContentState,
  relation: z.object({ type: z.enum(['rename', 'copy']), path }).nullable(),
  oldString: z.string().nullable(),
  newString: z.string().nullable(),
  linesAdded: count.nullable(),
  linesRemoved: count.nullable(),
  sourceRuntime: z.string().max(100),
  sourceProvider: z.string().max(100),
  sourceSessionId: z.string().max(200).nullable(),
  sourcePartId: z.string().max(200).nullable(),
  sourceMessageId: z.string().max(200).nullable(),
  parentUserMessageId: z.string().max(200).nullable(),
  attributionMethod: z
    .string()
    .max(100)
    .describe(
      'delivery-ledger-taskrefs; of others also parent-taskrefs-exact, board-tool-call, requested-task-marker',
    ),
  sourceImportKey: z.string().min(1).max(8192).nullable().describe('Its parts are divided by NUL'),
  evidenceProof: z.string().max(100).describe('What is not an accepted proof is unsafe'),
  snapshotId: z.string().max(200).nullable(),
  snapshotSource: z.string().max(100).nullable(),
  shapeFingerprint: z
    .string()
    .max(200)
    .nullable()
    .describe('Of the database and the store that the proof was read from'),
  supersedesEventId: id.nullable(),
  warnings: z.array(z.string().max(2000)).max(100),
})
export type ChangeEvent = z.infer<typeof ChangeEvent>

export const Diagnostic = z.object({
  code: DiagnosticCode,
  partId: z.string().nullable(),
  path: z.string().nullable().describe('Control characters are escaped'),
  windowId: z.string().nullable(),
})
export type Diagnostic = z.infer<typeof Diagnostic>

const decided = {
  sourceImportKey: z.string(),
  partId: z.string(),
  path: z.string(),
  windowId: z.string().nullable(),
}
export const ProofDecision = z.discriminatedUnion('type', [
  z.object({
    ...decided,
    type: z.literal('upgraded'),
    proof: z.enum(acceptedProofs),
    applied: z.boolean().describe('false: this mode only counts it'),
  }),
  z.object({ ...decided, type: z.literal('skipped'), reason: DiagnosticCode }),
])
export type ProofDecision = z.infer<typeof ProofDecision>

export const ProofStatistics = z.object({
  mode: ProofMode,
  attemptedChanges: count,
  upgradedChanges: count.describe('Proven and applied'),
  wouldUpgradeChanges: count.describe('Proven, whether applied or not'),
  skippedChanges: count,
  skippedByReason: z.partialRecord(DiagnosticCode, count),
  snapshotReadCount: count,
  snapshotReadTimeouts: count,
  snapshotReadElapsedMs: z.number().min(0),
  touchedPathCount: count,
  exactToolpartChainCount: count,
  metadataOnlyFallbackCount: count,
  bytesRead: count,
  bytesMaterialized: count,
  skippedByByteLimit: count,
  skippedByTotalBudget: count,
})
export type ProofStatistics = z.infer<typeof ProofStatistics>

/** An event with its texts: what is stored as blobs by hash beside it. null: none, which is not the empty text. */
export interface ProvenChange {
  event: ChangeEvent
  beforeContent: string | null
  afterContent: string | null
}
