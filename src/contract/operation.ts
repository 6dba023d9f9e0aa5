import { z } from 'zod'
import { CollectedFile, Sha256 } from './artifact.ts'
import { ApprovalId, AttemptId, CallerKey, OperationId, RunId, Text } from './ids.ts'
import { Category, Decision, Risk } from './permission.ts'
import { ReportedMs } from './reported.ts'

const revert = {
  expect: Sha256.nullable().describe('What must be there; null: nothing'),
  restore: Sha256.nullable().describe('What was there before; null: nothing'),
  executable: z.boolean().optional().describe('It was, and comes back so where nothing is'),
}

/** What a caller asks the control plane to do in the session's sandbox. */
export const Operation = z.strictObject({
  category: Category,
  operation: z
    .enum([
      'read-file',
      'list-folder',
      'write-file',
      'delete-file',
      'apply-patch',
      'revert-file',
      'git',
      'run',
      'fetch',
      'other',
    ])
    .describe(
      'other: recorded and decided, but there is no executor for it. revert-file: only by rejecting a change',
    ),
  targetPath: Text(4096, 1).optional().describe('Relative to the workspace, or absolute'),
  content: Text(512 * 1024)
    .optional()
    .describe('write-file, revert-file'),
  patch: Text(512 * 1024, 1)
    .optional()
    .describe('apply-patch: a unified diff'),
  revert: z.strictObject(revert).optional().describe('revert-file'),
  args: z.array(Text(4096)).max(200).optional().describe('git: its arguments'),
  command: Text(64 * 1024, 1)
    .optional()
    .describe('run: a shell command'),
  cwd: Text(1000, 1).optional().describe('run: where it starts, in the workspace'),
  streams: z
    .literal('apart')
    .optional()
    .describe('run: what it prints to standard error is told by itself'),
  looksFor: Text(1000, 1)
    .optional()
    .describe('run: whether this path of the workspace exists afterwards is told'),
  ability: Sha256.optional().describe(
    'run: the folder of the ability that the session has pinned under this hash is at $ABILITY_DIR',
  ),
  url: z
    .url({ protocol: /^https?$/ })
    .max(4096)
    .optional()
    .describe('fetch'),
  environment: z
    .record(CallerKey, Text(8192))
    .optional()
    .describe('run: nothing else is inherited'),
  tool: Text(200, 1).optional().describe('provider-tool: opaque'),
  risks: z.array(Risk).max(4).default([]).describe('What the caller knows of it'),
  timeoutMs: z.number().int().min(100).max(600_000).default(60_000),
  network: z.boolean().default(false).describe('run: needs the network'),
})
export type Operation = z.infer<typeof Operation>

/** As the sandbox is told it. A script of an ability may take a day, and has what steps before it have printed. */
export const SentOperation = z.strictObject({
  ...Operation.shape,
  /** An agent reads over what a later release says here. */
  revert: z.object(revert).optional(),
  command: Text(2 ** 21, 1).optional(),
  environment: z.record(CallerKey, Text(2 ** 20)).optional(),
  timeoutMs: z.number().int().min(1).max(86_400_000),
})

export const Strategy = z.enum(['workspace', 'git-worktree', 'process-sandbox', 'denied'])
export type Strategy = z.infer<typeof Strategy>

/** What each of them can carry out. Everything else is decided and recorded, and has nobody to do it. */
export const executors: Record<Strategy, readonly Operation['operation'][]> = {
  workspace: ['read-file', 'list-folder', 'revert-file'],
  'git-worktree': ['write-file', 'delete-file', 'apply-patch', 'git', 'run'],
  'process-sandbox': ['run', 'fetch'],
  denied: [],
}

/** What a sandbox can hold a process to. Its agent says which of them it has, once it is ready. */
export const Enforcement = z.enum(['network', 'memory', 'processes', 'time', 'output', 'real-path'])
export type Enforcement = z.infer<typeof Enforcement>

export const IsolationPlan = z.object({
  strategy: Strategy,
  pathConstraints: z.array(z.string()),
  /** Approvals and conditions that must hold before it runs. */
  conditions: z.array(z.string()),
  /** The real path is compared with the workspace before anything is read or written. */
  realPathFirst: z.boolean(),
  network: z.boolean().describe('Whether the process may reach it'),
  limits: z.object({
    timeoutMs: z.number().int(),
    memoryBytes: z.number().int(),
    processes: z.number().int(),
    outputBytes: z.number().int(),
  }),
  /** What the plan asks for. */
  enforce: z.array(Enforcement),
  /** What of it this sandbox cannot hold: then the operation asks. */
  notEnforced: z.array(Enforcement),
  limitations: z.array(z.string()),
})
export type IsolationPlan = z.infer<typeof IsolationPlan>

/** What executing an operation would begin with. */
export const OperationPreflight = z.object({
  decision: Decision,
  reason: z.string(),
  rule: z.string(),
  plan: IsolationPlan,
})
export type OperationPreflight = z.infer<typeof OperationPreflight>

/** How it went, from the sandbox. unknown: begun, and nobody can say how it ended. */
export const ExecutionReport = z.object({
  status: z.enum(['succeeded', 'failed', 'unknown']),
  output: z.string().describe('Content, listing, or what the process printed'),
  stderr: z.string().optional().describe('Only of a run whose streams are apart'),
  found: z.boolean().optional().describe('Only of a run that looks for a path'),
  truncated: z.boolean(),
  exitCode: z.number().int().nullable(),
  timedOut: z.literal(true).optional().describe('It was ended since it took too long'),
  error: z.string().nullable(),
  durationMs: ReportedMs,
  /** The branch of the worktree, to be merged by a step of its own. */
  branch: z.string().nullable(),
  /** The diff of the worktree, uploaded. */
  files: z.array(CollectedFile),
  enforced: z.array(Enforcement),
})
export type ExecutionReport = z.infer<typeof ExecutionReport>

export const MergeReport = z.object({
  merged: z.boolean(),
  commit: z.string().nullable(),
  conflicts: z.array(z.string()),
})
export type MergeReport = z.infer<typeof MergeReport>

export const DiscardReport = z.object({
  discarded: z.boolean(),
  commit: z.string().nullable().describe('What the branch stood at; null: it was gone already'),
})
export type DiscardReport = z.infer<typeof DiscardReport>

export const RetryPolicy = z.enum([
  'never',
  'after-abandoned',
  'after-failure',
  'after-failure-or-abandoned',
])
export type RetryPolicy = z.infer<typeof RetryPolicy>

export const AttemptStatus = z.enum(['reserved', 'succeeded', 'failed', 'abandoned'])
export type AttemptStatus = z.infer<typeof AttemptStatus>

export const Attempt = z.object({
  id: AttemptId,
  operationId: OperationId,
  runId: RunId,
  approvalId: ApprovalId.nullable(),
  decisionSeq: z.number().int().describe('The permission decision in the timeline'),
  pendingSeq: z.number().int().nullable().describe('The execution event that waited for approval'),
  sequence: z.number().int(),
  executor: Strategy,
  status: AttemptStatus,
  dispatched: z.boolean().describe('false: admitted, and not sent to the sandbox yet'),
  suspectSince: z.number().nullable().describe('No result in time: a person decides'),
  report: ExecutionReport.nullable(),
  actor: z.string().nullable().describe('Who abandoned it'),
  reason: z.string().nullable(),
  reservedAt: z.number(),
  finishedAt: z.number().nullable(),
})
export type Attempt = z.infer<typeof Attempt>

export const OperationRecord = z.object({
  id: OperationId,
  runId: RunId,
  operation: Operation,
  operationHash: z.string(),
  decision: Decision,
  reason: z.string(),
  rule: z.string(),
  plan: IsolationPlan,
  approvalId: ApprovalId.nullable(),
  evaluationOnly: z.boolean().describe('Only evaluated: there is nothing to resume'),
  attempts: z.array(Attempt),
  /** What may be done about it next. */
  next: z.array(z.string()),
  createdAt: z.number(),
})
export type OperationRecord = z.infer<typeof OperationRecord>

export const RetryEvaluation = z.object({
  allowed: z.boolean(),
  reasonCode: z.enum([
    'no-attempts',
    'retryable',
    'active-reservation',
    'succeeded',
    'policy-never',
    'not-retryable',
  ]),
  reason: z.string(),
  policy: RetryPolicy,
  attemptCount: z.number().int(),
  retryableStatuses: z.array(AttemptStatus),
  latest: Attempt.nullable(),
  active: Attempt.nullable(),
})
export type RetryEvaluation = z.infer<typeof RetryEvaluation>
