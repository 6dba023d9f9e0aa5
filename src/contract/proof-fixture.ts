// The form in which anybody can try the rules of change evidence: a delivery, windows, tool parts and the files of the
// snapshots, small enough to write by hand. `POST /v1/evidence/evaluate` takes it and stores nothing.

import { z } from 'zod'
import { ChangeEvent, ProofDecision, ProofStatistics } from './change.ts'
import { DiagnosticCode, evidenceLimits, ProofMode } from './evidence.ts'
import { Text } from './ids.ts'

const name = Text(200, 1)
const order = z.number().int().min(0).max(1_000_000)
const path = z.string().min(1).max(4096)
const content = z.string().max(2 * evidenceLimits.bytesPerFile)
const mode = z.enum(['100644', '100755'])

const window = z.strictObject({
  messageId: name,
  windowId: name,
  fromSnapshot: name.nullable(),
  toSnapshot: name.nullable(),
  startPartOrder: order,
  finishPartOrder: order.nullable().describe('null: the step was aborted'),
  readMs: z.number().min(0).max(600_000).default(0).describe('How long its snapshots took to read'),
  timedOut: z.boolean().default(false),
})

const part = z.strictObject({
  partId: name,
  messageId: name,
  order,
  tool: name.describe('write, edit, apply_patch, or another: then it makes no change'),
  filePath: path.optional(),
  oldString: content.optional(),
  newString: content.optional(),
  content: content.optional(),
  replaceAll: z.boolean().optional(),
  patchText: content.optional(),
  status: z.enum(['pending', 'running', 'completed', 'error']).default('completed'),
  exists: z.boolean().optional().describe('write: whether there was a file before'),
  truncated: z.boolean().default(false).describe('Its texts are cut'),
  seen: z.boolean().default(true).describe('It came over the link while the turn ran'),
  endedAt: z.number().int().min(0).max(1_000_000_000_000_000).optional(),
  taskId: name.optional().describe("If not the delivery's: the message was of another task"),
  memberName: name.optional(),
  laneId: name.optional(),
  sessionId: name.optional(),
})

const file = z.strictObject({
  relativePath: path,
  beforeContent: content.optional(),
  afterContent: content.optional(),
  beforeExists: z.boolean(),
  afterExists: z.boolean(),
  windowId: name.optional().describe('Default: every window'),
  beforeMode: mode.default('100644'),
  afterMode: mode.default('100644'),
  beforeUnavailable: DiagnosticCode.optional().describe('Why there is no text, though it exists'),
  afterUnavailable: DiagnosticCode.optional(),
  currentContent: content
    .optional()
    .describe('What is on the disk now. Never used: it only leaves current-disk-not-proof'),
})

/** Each is hashed and compared, while everybody else waits. */
const maxFilesOfWindows = 2000
const maxCharactersOfWindows = 8 * 1024 * 1024

/** Over all windows: a file without a window is one of every window. */
const sumFiles = (
  fixture: { windows: readonly unknown[]; snapshotFiles: readonly z.output<typeof file>[] },
  of: (one: z.output<typeof file>) => number,
): number =>
  fixture.snapshotFiles.reduce(
    (sum, one) => sum + of(one) * (one.windowId === undefined ? fixture.windows.length : 1),
    0,
  )
const lengthOf = ({ beforeContent = '', afterContent = '' }: z.output<typeof file>): number =>
  beforeContent.length + afterContent.length

export const SnapshotProofFixture = z
  .strictObject({
    name: Text(200, 1),
    mode: ProofMode.describe("Lowers the deployment's mode, and never raises it"),
    attributionMode: z.enum(['strict-delivery', 'compatible']),
    provider: name.default('opencode').describe('Changes of others are never looked at'),
    workspaceRoot: path.default('/workspace'),
    delivery: z.strictObject({
      teamName: name,
      taskId: name,
      memberName: name,
      laneId: name.optional(),
      sessionId: name,
      assistantMessageId: name,
    }),
    capability: z
      .strictObject({
        schemaSupported: z.boolean().default(true),
        historyReadable: z.boolean().default(true),
        identity: z.boolean().default(true),
        worktree: path.optional(),
        store: z.enum(['found', 'missing', 'unsupported', 'misplaced']).default('found'),
        fingerprint: name.nullable().default('fixture'),
        frozen: z.boolean().default(false),
        formatted: z.array(Text(40, 1)).max(100).nullable().default(null),
      })
      .prefault({}),
    windows: z.array(window).max(200),
    parts: z.array(part).max(500),
    snapshotFiles: z.array(file).max(1000),
    expected: z
      .strictObject({
        upgraded: z.number().int().min(0),
        metadataOnly: z.number().int().min(0),
        diagnostics: z
          .array(Text(300))
          .max(1000)
          .describe('Each is the beginning of one that is given'),
      })
      .optional(),
  })
  .refine((fixture) => sumFiles(fixture, () => 1) <= maxFilesOfWindows, {
    path: ['snapshotFiles'],
    error: `The windows must have at most ${maxFilesOfWindows} files together: name the window of each file`,
  })
  .refine((fixture) => sumFiles(fixture, lengthOf) <= maxCharactersOfWindows, {
    path: ['snapshotFiles'],
    error: `The files of all windows must have at most ${maxCharactersOfWindows} characters together: name the window of each file`,
  })
export type SnapshotProofFixture = z.infer<typeof SnapshotProofFixture>

export const ProofEvaluation = z.object({
  name: z.string(),
  mode: ProofMode.describe('The lower one of what was asked for and what the deployment allows'),
  upgraded: z.number().int().describe('Changes that are proven, and would be imported so'),
  wouldUpgrade: z.number().int().describe('Changes that are proven, whatever the mode'),
  metadataOnly: z.number().int(),
  decisions: z.array(ProofDecision),
  diagnostics: z
    .array(z.string())
    .describe('snapshot-upgrade-skipped/CODE: part, path. Remarks begin with snapshot-upgrade/'),
  statistics: ProofStatistics,
  events: z.array(ChangeEvent),
  fingerprint: z.string().describe('Equal for what reads alike to a reviewer; without content'),
  asExpected: z.boolean().nullable().describe('null: nothing was expected'),
})
export type ProofEvaluation = z.infer<typeof ProofEvaluation>
