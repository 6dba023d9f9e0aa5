import { z } from 'zod'
import { ResultRow } from './eval-result.ts'
import { Text } from './ids.ts'

/** Two runs of one suite beside each other, and the rule by which a score lets something be released. */

const count = z.number().int().min(0)

/** The results of one target in one run. */
export const EvalSide = z.strictObject({
  runId: Text(200, 1),
  target: Text(100, 1),
  suiteDigest: Text(200, 1),
  cases: z
    .array(
      z.strictObject({
        id: Text(200, 1),
        repetitions: z.number().int().min(1).max(100).default(1),
        required: z.boolean().default(false),
      }),
    )
    .max(10_000)
    .describe('All that were planned: an attempt without a row has failed'),
  leftOut: z
    .array(z.strictObject({ id: Text(200, 1), required: z.boolean().default(false) }))
    .max(10_000)
    .default([])
    .describe('Cases of the suite that this run was not to attempt'),
  rows: z.array(ResultRow).max(20_000),
})
export type EvalSide = z.infer<typeof EvalSide>

export const ComparedVerdict = z
  .enum(['better', 'worse', 'no_difference_shown', 'inconclusive'])
  .describe('inconclusive: too few cases to say anything')
export type ComparedVerdict = z.infer<typeof ComparedVerdict>

export const Interval = z.object({
  low: z.number(),
  high: z.number(),
  confidence: z.number(),
  method: z.enum(['bootstrap', 't']),
})
export type Interval = z.infer<typeof Interval>

/** Paired by case: candidate minus baseline. */
export const ScoreComparison = z.object({
  baseline: z.number(),
  candidate: z.number(),
  difference: z.number(),
  interval: Interval.nullable().describe('null: fewer than two cases'),
  wins: count,
  ties: count,
  losses: count,
  verdict: ComparedVerdict,
})
export type ScoreComparison = z.infer<typeof ScoreComparison>

export const PassComparison = z.object({
  bothPassed: count,
  onlyBaseline: count,
  onlyCandidate: count,
  bothFailed: count,
  pValue: z.number().describe('Exact McNemar test, mid-p, two-sided'),
  verdict: ComparedVerdict,
})
export type PassComparison = z.infer<typeof PassComparison>

export const SideSummary = z.object({
  runId: z.string(),
  target: z.string(),
  cases: count,
  score: z.number(),
  passed: count.describe('Cases of which more than half of the repetitions passed'),
  errors: count.describe('Attempts with an error'),
  missing: count.describe('Attempts without a row'),
  passAtK: z.array(z.number()).describe('For k = 1, 2, … repetitions: at least one of k passes'),
  passPowK: z.array(z.number()).describe('All of k pass'),
})
export type SideSummary = z.infer<typeof SideSummary>

const CaseChange = z.enum(['regression', 'improvement', 'same'])
const CaseSide = z.object({
  score: z.number(),
  passed: z.boolean(),
  error: z.string().nullable(),
  transcript: z.string().nullable().describe('Of its worst repetition'),
})
export const CaseComparison = z.object({
  evalId: z.string(),
  required: z.boolean(),
  change: CaseChange.describe('By passed, then by score'),
  difference: z.number(),
  baseline: CaseSide,
  candidate: CaseSide,
  misses: z.array(z.string()).describe("The candidate's worst repetition"),
})
export type CaseComparison = z.infer<typeof CaseComparison>

export const Comparison = z.discriminatedUnion('comparable', [
  z.object({ comparable: z.literal(false), reason: z.string() }),
  z.object({
    comparable: z.literal(true),
    baseline: SideSummary,
    candidate: SideSummary,
    score: ScoreComparison,
    passes: PassComparison,
    evaluators: z.array(ScoreComparison.extend({ name: z.string(), cases: count })),
    cases: z.array(CaseComparison).describe('Regressions first, the worst at the top'),
    onlyBaseline: z.array(z.string()).describe('Cases that only the baseline ran: in no number'),
    onlyCandidate: z.array(z.string()).describe('Cases that only the candidate ran: in no number'),
    seed: count,
  }),
])
export type Comparison = z.infer<typeof Comparison>

/** What a promotion needs. Data, so that a project can keep it beside its suite. */
export const GateRule = z.strictObject({
  minScore: z.number().min(0).max(1).optional().describe('Of the mean over all cases'),
  requiredCases: z.boolean().default(true).describe('No required case may fail'),
  interval: z
    .strictObject({
      confidence: z.number().min(0.5).max(0.999).default(0.95),
      allowedDrop: z.number().min(0).max(1).default(0),
      blocks: z
        .enum(['shown_worse', 'not_shown_equal'])
        .default('shown_worse')
        .describe('not_shown_equal: a drop beyond the allowed one must be ruled out'),
    })
    .prefault({})
    .nullable()
    .describe('null: nothing is held against the baseline but which cases were run'),
  minCases: z.number().int().min(5).max(10_000).default(10),
})
export type GateRule = z.infer<typeof GateRule>

export const GateDecision = z.object({
  outcome: z.enum(['pass', 'fail', 'inconclusive']),
  reasons: z.array(z.string()).describe('Each is a sentence; what failed comes first'),
})
export type GateDecision = z.infer<typeof GateDecision>

/** Each has an interval of its own, which takes its time. */
const maxComparedEvaluators = 1000

const namesOf = ({
  baseline,
  candidate,
}: Record<'baseline' | 'candidate', EvalSide>): Set<string> =>
  new Set(
    [...baseline.rows, ...candidate.rows].flatMap((row) =>
      row.evaluator_results.map(({ name }) => name),
    ),
  )

export const EvalCompare = z
  .strictObject({
    baseline: EvalSide,
    candidate: EvalSide,
    seed: count
      .max(2 ** 32 - 1)
      .default(1)
      .describe('Of the bootstrap: the same seed, the same interval'),
    rule: GateRule.optional(),
  })
  .refine((sides) => namesOf(sides).size <= maxComparedEvaluators, {
    path: ['candidate', 'rows'],
    error: `The rows must have at most ${maxComparedEvaluators} names of evaluators together`,
  })
export type EvalCompare = z.infer<typeof EvalCompare>

export const EvalCompared = z.object({
  comparison: Comparison,
  gate: GateDecision.nullable().describe('null: no rule was given'),
})
export type EvalCompared = z.infer<typeof EvalCompared>
