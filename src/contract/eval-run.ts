import { z } from 'zod'
import { GateDecision, GateRule } from './eval-compare.ts'
import { ResultRow } from './eval-result.ts'
import { EvalCaseId, EvalFiles, EvalProblem, maxRepetitions } from './eval-suite.ts'
import { TargetName } from './eval-target.ts'
import { EvalRunId, MemberId, OrganisationId, SessionId, Text } from './ids.ts'
import { PageQuery } from './page.ts'
import { Project } from './project.ts'
import { Guarded, RegistryRevision } from './promotion.ts'

/** A run of a suite: every case, as often as it is repeated, against every target. */

export const maxEvalAttempts = 20_000
const maxEvalWorkers = 64

export const EvalRunBudget = z.strictObject({
  moneyUsd: z
    .number()
    .min(0)
    .max(1_000_000)
    .optional()
    .describe('Of all attempts and judges together; what is left over is shared by those that run'),
  seconds: z
    .number()
    .int()
    .min(1)
    .max(7 * 86_400)
    .optional()
    .describe('After so long what has not ended is stopped'),
})
export type EvalRunBudget = z.infer<typeof EvalRunBudget>

export const EvalRunCreate = EvalFiles.extend({
  project: Project,
  suite: Text(1000, 1).describe('The path of the eval file'),
  targets: Text(1000, 1).describe('The path of the targets file'),
  runTargets: z
    .array(TargetName)
    .min(1)
    .max(20)
    .optional()
    .describe("By name. Default: the suite's own target, else all that do not only judge"),
  cases: z.array(EvalCaseId).min(1).max(1000).optional().describe('Only these'),
  repetitions: z.number().int().min(1).max(maxRepetitions).optional().describe('Of every case'),
  workers: z
    .number()
    .int()
    .min(1)
    .max(maxEvalWorkers)
    .default(4)
    .describe('Attempts at the same time, of all targets; each target has its own limit beside it'),
  budget: EvalRunBudget.default({}),
  streamLogs: z
    .boolean()
    .default(true)
    .describe(
      'false, or the variable AGENTV_OPENCODE_STREAM_LOGS of false, 0 or off: no log files',
    ),
  verbose: z.boolean().default(false).describe('Warnings of attempts are events too'),
})
export type EvalRunCreate = z.infer<typeof EvalRunCreate>

/** stopped: by a budget. */
export const EvalRunStatus = z.enum(['running', 'completed', 'cancelled', 'stopped'])
export type EvalRunStatus = z.infer<typeof EvalRunStatus>

const count = z.number().int().min(0)
export const EvalRunRow = z.object({
  id: EvalRunId,
  memberId: MemberId.nullable(),
  project: z.string(),
  dataset: z.string(),
  digest: z.string().describe('Of the suite: runs of equal suites can be compared'),
  targets: z.array(z.string()),
  status: EvalRunStatus,
  reason: z.string().nullable().describe('Why it was cancelled or stopped'),
  attempts: count.describe('All that were planned: cases x repetitions x targets'),
  passed: count,
  errors: count.describe('Attempts that gave nothing to score'),
  score: z.number().nullable().describe('The mean of all results; null: none yet'),
  hash: z.string().nullable().describe('Of its results, once it has ended: what a promotion names'),
  createdAt: z.number(),
  endedAt: z.number().nullable(),
})
export type EvalRunRow = z.infer<typeof EvalRunRow>

export const EvalRun = EvalRunRow.extend({
  organisationId: OrganisationId,
  problems: z.array(EvalProblem).describe('What was wrong with the files; such cases are left out'),
  pending: count,
  running: count,
  done: count,
  costUsd: z.number().describe('Of what has ended'),
  workers: count,
  budget: EvalRunBudget,
  lastEventSeq: count,
})
export type EvalRun = z.infer<typeof EvalRun>

export const EvalAttemptState = z.enum(['pending', 'starting', 'working', 'judging', 'done'])
export type EvalAttemptState = z.infer<typeof EvalAttemptState>

export const EvalAttempt = z.object({
  n: count.describe('Its number in the run, from 1'),
  evalCaseId: z.string(),
  target: z.string(),
  repetition: count.describe('From 0'),
  attempt: count.describe('From 0: how often it was begun anew after a time-out'),
  state: EvalAttemptState,
  sessionId: SessionId.nullable(),
  startedAt: z.number().nullable(),
  endedAt: z.number().nullable(),
  tried: z
    .array(RegistryRevision)
    .describe('The revisions of registries, and the policy, that it began with'),
  result: ResultRow.nullable(),
})
export type EvalAttempt = z.infer<typeof EvalAttempt>

/** Where the log of an attempt is, published before it begins to work. */
const LogEntry = z.object({
  filePath: z.string().describe("In the attempt's sandbox; relative to its workspace"),
  targetName: z.string(),
  evalCaseId: z.string(),
  attempt: count,
  url: z.string().describe('The same as a feed: works also after the sandbox is gone'),
})
type LogEntry = z.infer<typeof LogEntry>

const subject = { n: count, evalCaseId: z.string(), target: z.string(), repetition: count }
const evalEventKinds = {
  'run.started': z.object({ attempts: count }),
  'attempt.started': z.object({ ...subject, attempt: count }),
  'log.published': LogEntry,
  'attempt.retried': z.object({ ...subject, attempt: count, reason: z.string() }),
  /** Only in a verbose run. */
  'attempt.warned': z.object({ ...subject, message: z.string() }),
  'attempt.ended': z.object({
    ...subject,
    score: z.number(),
    verdict: z.string(),
    error: z.string().nullable(),
  }),
  'run.ended': z.object({ status: EvalRunStatus, reason: z.string().nullable() }),
} as const
export type EvalEventKind = keyof typeof evalEventKinds
export type EvalEventData<K extends EvalEventKind> = z.infer<(typeof evalEventKinds)[K]>

export const EvalEvent = z.object({
  seq: count,
  at: z.number(),
  kind: z.enum(Object.keys(evalEventKinds) as [EvalEventKind, ...EvalEventKind[]]),
  data: z.record(z.string(), z.unknown()).describe('What it has depends on its kind'),
})
export type EvalEvent = z.infer<typeof EvalEvent>

/** Which run of a suite later ones are held against, and by which rule. One for each project and suite. */
export const EvalBaselinePut = z.strictObject({
  evalRunId: EvalRunId,
  target: TargetName.optional().describe('Needed if the run has several'),
  rule: GateRule.prefault({}),
  gates: z
    .array(Guarded)
    .max(100)
    .default([])
    .describe('What cannot be released in the project without a run that passes the rule'),
})
export type EvalBaselinePut = z.infer<typeof EvalBaselinePut>

export const EvalBaseline = z.object({
  project: z.string(),
  dataset: z.string(),
  digest: z.string().describe('Of the suite, as the run had it'),
  evalRunId: EvalRunId,
  target: z.string(),
  rule: GateRule,
  gates: z.array(Guarded),
  setBy: z.string(),
  setAt: z.number(),
})
export type EvalBaseline = z.infer<typeof EvalBaseline>

export const EvalGate = GateDecision.extend({
  evalRunId: EvalRunId,
  target: z.string(),
  hash: z.string().nullable().describe('Of the run: what a promotion records'),
  baselineRunId: EvalRunId,
  differences: z
    .array(z.string())
    .describe(
      'What else than answers differs from the baseline: a promotion needs that it is nothing but its own revision',
    ),
})
export type EvalGate = z.infer<typeof EvalGate>

export const EvalRunListQuery = PageQuery.extend({
  project: z.string().max(64).optional(),
  dataset: Text(200, 1).optional(),
})
export type EvalRunListQuery = z.infer<typeof EvalRunListQuery>
