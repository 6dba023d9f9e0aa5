// Evidence of what an agent changed. Who makes what, and who reads it:
// - EvidenceBundle: the sandbox's agent reads OpenCode's database and snapshot store and posts it, once per collect. It is
//   a claim: the session checks its form here, and the engine (core/evidence) checks all else.
// - DeliveryRecord: the session writes it from its own rows (turn, run, generation, what came over the link). The engine
//   believes this one. Nothing in it comes from the bundle.
// - ProofMode: the deployment's variable; a request may lower it.
// - ChangeEvent, ProofDecision, ProofStatistics (change.ts): the engine makes them; the session stores and shows them.
// Current disk content has no field in any of these, so it cannot become proof.

import { z } from 'zod'
import { Sha256 } from './artifact.ts'
import { canonicalJson } from './canonical.ts'
import { OrganisationId, RunId, SessionId, TurnId } from './ids.ts'
import { ReportedMs } from './reported.ts'

/** R3-60. One window is one read. None of them is ever raised, and nothing is read again within one collect. */
export const evidenceLimits = {
  filesPerRead: 100,
  bytesPerFile: 1024 * 1024,
  /** Of both sides of all files of one bundle. */
  bytesInTotal: 4 * 1024 * 1024,
  readMs: 3000,
  readsPerCollect: 10,
  slowReadMs: 500,
} as const

/** What a bundle may hold beside its texts. What does not fit is left out by the agent and named in `failures`. */
export const maxBundleBytes = 16 * 1024 * 1024
export const maxBundleParts = 2000
export const maxBundleMessages = 2000
/** Files of all its tool parts together. One with more is refused: no turn of ten steps needs them. */
export const maxBundleChanges = 10_000

export const ProofMode = z.enum(['off', 'shadow', 'single-change', 'full'])
export type ProofMode = z.infer<typeof ProofMode>
/** From the least to the most that may be applied. */
export const proofModes = ProofMode.options

/** What a variable says. An unknown word is shadow: it computes and applies nothing. */
export function parseEvidenceMode(raw: string | undefined): ProofMode {
  if (raw === '0') return 'off'
  return ProofMode.safeParse(raw).data ?? 'shadow'
}

/** A request may lower what the deployment has set; asking for more gets what is set. */
export const lowerEvidenceMode = (set: ProofMode, asked: ProofMode | undefined): ProofMode =>
  asked !== undefined && proofModes.indexOf(asked) < proofModes.indexOf(set) ? asked : set

/** Every reason and every remark that collecting, deciding and importing can give. There is no other list. */
const diagnosticCodes = [
  // Not a candidate
  'feature-flag-off',
  'not-opencode',
  'already-exact',
  'unmodelled-tool',
  'tool-not-completed',
  'malformed-row',
  // Whose change it is
  'strict-delivery-required',
  'identity-missing',
  'identity-mismatch',
  'evidence-mismatch',
  'duplicate-import-key',
  // What this session's store can show
  'sqlite-schema-unsupported',
  'history-unreadable',
  'part-limit',
  'session-identity-missing',
  'workspace-mismatch',
  'snapshot-window-missing',
  'snapshot-store-unsupported',
  'snapshot-store-missing',
  'snapshot-store-misplaced',
  'snapshot-frozen',
  'unsupported-snapshot-shape',
  // The window
  'no-window',
  'ambiguous-window',
  'incomplete-window',
  'opaque-tool-in-window',
  'read-limit',
  'read-timeout',
  'read-slow',
  'object-missing',
  'object-foreign',
  'object-unreadable',
  // The file in it
  'path-unsafe',
  'path-outside-session',
  'no-file-anchor',
  'no-after-anchor',
  'duplicate-anchor',
  'extra-snapshot-path',
  'not-captured',
  'binary',
  'invalid-utf8',
  'too-large',
  'file-limit',
  'total-budget',
  'not-a-file',
  'path-is-folder',
  'submodule',
  'mode-change',
  'rename',
  'content-hash-mismatch',
  'secret-replaced',
  'current-disk-not-proof',
  // The transition
  'operation-mismatch',
  'toolpart-after-mismatch',
  'toolpart-truncated',
  'unchanged',
  'edit-incomplete',
  'edit-replace-all',
  'edit-ambiguous',
  'patch-unparsed',
  'patch-ambiguous',
  // The chain
  'multi-change-group',
  'unstable-order',
  'path-chain-ambiguous',
  'path-chain-boundary-mismatch',
  // After it
  'postcondition-failed',
  'warning-preserved',
  'import-failed',
] as const
export const DiagnosticCode = z.enum(diagnosticCodes)
export type DiagnosticCode = z.infer<typeof DiagnosticCode>

const id = z.string().min(1).max(200)
const path = z.string().min(1).max(4096)
const tree = z.string().regex(/^[0-9a-f]{40}([0-9a-f]{24})?$/)
const order = z.number().int().min(0).max(10_000_000)
const at = z.number().int().min(0).max(8_640_000_000_000_000)
export const EvidenceCount = z.number().int().min(0).max(1_000_000_000)
export const EvidencePath = path

// --- The bundle: what the agent posts ---

/** An assistant message. `parentId` is the user message that it answers. */
export const EvidenceMessage = z.object({
  id,
  sessionId: id.describe("OpenCode's session, a sub-agent's too"),
  parentId: id.nullable(),
  agent: z.string().max(200).nullable(),
  createdAt: at,
  completedAt: at.nullable(),
})
export type EvidenceMessage = z.infer<typeof EvidenceMessage>

/** As in OpenCode's database. A row that cannot be read whole is left out and named in `failures` as malformed-row. */
export const EvidencePart = z.object({
  id,
  messageId: id,
  sessionId: id,
  order: order.describe('Its place among all parts of its message'),
  callId: id,
  tool: id,
  status: z.enum(['pending', 'running', 'completed', 'error']),
  input: z
    .record(z.string(), z.unknown())
    .nullable()
    .describe('Whole, of write, edit and apply_patch; null of other tools'),
  inputTruncated: z.boolean().describe('The agent has cut or left out texts of it'),
  recordHash: Sha256.nullable()
    .optional()
    .describe(
      'Of write, edit and apply_patch: the hash of evidenceRecordText before anything was cut; null: it was too long to be read whole',
    ),
  metadata: z.object({
    exists: z.boolean().nullable().describe('write: whether there was a file before'),
    truncated: z.boolean().nullable(),
    files: z
      .array(
        z.object({
          filePath: path,
          type: z.string().max(40).describe('update, add, delete, move'),
        }),
      )
      .max(1000)
      .nullable()
      .describe('apply_patch: what it says that it changed'),
  }),
  startedAt: at.nullable(),
  endedAt: at.nullable(),
})
export type EvidencePart = z.infer<typeof EvidencePart>

/** What is hashed of a tool part when it is done, and again when it is read: what decides which change it is. */
export const evidenceRecordText = ({
  input,
  metadata: { exists, truncated, files },
}: Pick<EvidencePart, 'input' | 'metadata'>): string =>
  canonicalJson({
    input,
    ...{ exists, truncated },
    files: files && files.map(({ filePath, type }) => ({ filePath, type })),
  })

/** A tool part that ran beside those of the bundle, in whatever session: it may have written the same files. */
export const NeighbourPart = z.object({
  id,
  messageId: id,
  sessionId: id,
  tool: id,
  paths: z.array(path).max(1000).describe('As touchedPaths gives them'),
  startedAt: at.nullable(),
  endedAt: at.nullable(),
})
export type NeighbourPart = z.infer<typeof NeighbourPart>

/** A model step: from its step-start to its step-finish. A hash that OpenCode did not write is null. */
export const EvidenceWindow = z.object({
  id: id.describe('The id of the step-start part'),
  messageId: id,
  from: tree.nullable(),
  to: tree.nullable(),
  startOrder: order,
  finishOrder: order.nullable().describe('null: the step was aborted'),
  changed: z
    .array(path)
    .max(1000)
    .describe('Paths that differ between the two trees, as far as they fit'),
})
export type EvidenceWindow = z.infer<typeof EvidenceWindow>

const regularFile = z.enum(['100644', '100755'])
/** One side of a file. Absent is only said of a path that was looked for in a tree and is not in it. */
export const EvidenceSide = z.discriminatedUnion('state', [
  z.object({ state: z.literal('absent') }),
  z.object({
    state: z.literal('text'),
    text: z.string().describe('All of it: valid UTF-8 without control bytes'),
    sha256: Sha256,
    sizeBytes: EvidenceCount.describe('In bytes'),
    mode: regularFile,
  }),
  z.object({ state: z.literal('unavailable'), code: DiagnosticCode }),
])
export type EvidenceSide = z.infer<typeof EvidenceSide>

/** A path of one window. Only paths that `unresolvedPaths` names are read. */
export const EvidenceFile = z.object({
  windowId: id,
  from: tree.nullable().describe('The pair that it was read from'),
  to: tree.nullable(),
  path: path.describe('Relative to the worktree, as touchedPaths gives it'),
  before: EvidenceSide,
  after: EvidenceSide,
})
export type EvidenceFile = z.infer<typeof EvidenceFile>

export const EvidenceFailure = z.object({
  code: DiagnosticCode,
  windowId: id.nullable().describe('null: it concerns the whole session'),
  path: path.nullable().describe('null: it concerns the whole window'),
  partId: id.nullable(),
})
export type EvidenceFailure = z.infer<typeof EvidenceFailure>

/** What was found of this session, not what its settings promise. */
const EvidenceCapability = z.object({
  schema: z.object({ supported: z.boolean(), fingerprint: z.string().max(200) }),
  writeAheadFile: z.enum(['read', 'none', 'unreadable']),
  session: z
    .object({
      id,
      projectId: id,
      directory: path,
      worktree: path,
      vcs: z.string().max(40).nullable(),
    })
    .nullable(),
  store: z.object({
    state: z.enum(['found', 'missing', 'unsupported', 'misplaced']),
    fingerprint: z.string().max(200).nullable(),
  }),
  frozen: z.boolean().describe('OpenCode has said that it could not take a snapshot'),
  formatted: z
    .array(z.string().max(40))
    .max(1000)
    .nullable()
    .describe(
      'Endings of files that OpenCode formats after writing, such as ".ts"; null: not known, then no text of a tool part is taken for the text of a file',
    ),
})
type EvidenceCapability = z.infer<typeof EvidenceCapability>

export const bundleVersion = 1
export const EvidenceBundle = z.object({
  version: z.literal(bundleVersion),
  capability: EvidenceCapability,
  messages: z.array(EvidenceMessage).max(maxBundleMessages),
  parts: z.array(EvidencePart).max(maxBundleParts).describe('Those that this collect is about'),
  neighbours: z.array(NeighbourPart).max(maxBundleParts),
  windows: z.array(EvidenceWindow).max(maxBundleMessages),
  files: z.array(EvidenceFile).max(evidenceLimits.filesPerRead * evidenceLimits.readsPerCollect),
  failures: z.array(EvidenceFailure).max(10_000),
  reads: z
    .array(
      z.object({
        windowId: id,
        elapsedMs: ReportedMs,
        timedOut: z.boolean(),
        bytes: EvidenceCount,
      }),
    )
    .max(evidenceLimits.readsPerCollect),
})
export type EvidenceBundle = z.infer<typeof EvidenceBundle>

// --- The delivery record: what the session itself holds ---

/** A tool part as it came over the link while the turn ran. */
export const SeenPart = z.object({
  id,
  messageId: id,
  sessionId: id,
  tool: z.string().max(200),
  callId: z.string().max(200),
  inputHash: Sha256.nullable().describe(
    'Of its input as canonical JSON; null: it was shortened on its way, and cannot be compared',
  ),
  recordHash: Sha256.nullable().describe(
    'Of evidenceRecordText, as the agent heard it when the tool was done; null: it did not tell',
  ),
  end: z.enum(['completed', 'failed']).nullable().describe('null: its end never came'),
})
export type SeenPart = z.infer<typeof SeenPart>

/** A step as it came over the link when it was done. */
export const SeenStep = z.object({
  messageId: id,
  from: z
    .string()
    .regex(/^(unknown|[0-9a-f]{40}([0-9a-f]{24})?)$/)
    .nullable(),
  to: tree.nullable(),
})
export type SeenStep = z.infer<typeof SeenStep>

/** Of which session of OpenCode the turn was. The first is the turn's own, the others are of its sub-agents. */
export const DeliveredSession = z.object({
  id,
  member: z.string().min(1).max(200).describe('Name of the agent or sub-agent'),
  userMessageIds: z
    .array(id)
    .nullable()
    .describe('The prompts that were sent; null: a sub-agent, whose prompt is not ours'),
})
export type DeliveredSession = z.infer<typeof DeliveredSession>

/** One turn. Identity: team = organisation and project, task = run, lane = session and generation, delivery = turn. */
export const DeliveryRecord = z.object({
  attribution: z
    .enum(['strict-delivery', 'compatible'])
    .describe('compatible: the turn, its run or its prompt is not known for sure'),
  organisationId: OrganisationId,
  project: z.string().min(1).max(64),
  runId: RunId,
  sessionId: SessionId,
  generation: z.number().int().min(1),
  turnId: TurnId,
  workspaceRoot: path,
  sessions: z.array(DeliveredSession).min(1).max(1000),
  seenParts: z.array(SeenPart),
  seenSteps: z.array(SeenStep).describe('Empty: the agent tells none'),
})
export type DeliveryRecord = z.infer<typeof DeliveryRecord>
