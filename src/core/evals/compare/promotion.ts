import type { EvalSide, GateDecision, GateRule } from '../../../contract/eval-compare.ts'
import { confidenceInterval } from '../statistics/interval.ts'
import { isSignFlipRare, signFlipChance } from '../statistics/sign-flips.ts'
import { type CaseTrials, isPassedTrial, summaryOfSide, trialsOfSide } from './sides.ts'

/**
 * Whether a candidate may be released. Fail: something of the rule does not hold. Inconclusive: the rule asks for more
 * than these results can say, or cases of the suite were not run, which never is a pass. Under no difference `shown_worse` blocks at most one in twenty
 * (1 - confidence); promotions call it, and keep the rule and the reasons with their decision.
 */
export function decidePromotion(
  rule: GateRule,
  candidate: EvalSide,
  baseline: EvalSide | null,
  { seed = 1 }: { seed?: number } = {},
): GateDecision {
  const trials = trialsOfSide(candidate)
  const failed: string[] = []
  const unknown: string[] = []
  const held: string[] = []
  checkScore(rule, candidate, trials, { failed, held })
  if (rule.requiredCases) checkRequired(candidate, baseline, trials, { failed, unknown, held })
  const isWhole = checkWhole(candidate, baseline, trials, unknown)
  if (trials.size < rule.minCases)
    unknown.push(`There are ${trials.size} cases, and the rule needs at least ${rule.minCases}`)
  if (rule.interval !== null && isWhole)
    checkInterval(rule, rule.interval, { baseline, trials, seed }, { failed, unknown, held })
  const outcome = failed.length > 0 ? 'fail' : unknown.length > 0 ? 'inconclusive' : 'pass'
  return { outcome, reasons: [...failed, ...unknown, ...held] }
}

type Reasons = Record<'failed' | 'unknown' | 'held', string[]>

function checkScore(
  { minScore }: GateRule,
  candidate: EvalSide,
  trials: ReadonlyMap<string, CaseTrials>,
  { failed, held }: Pick<Reasons, 'failed' | 'held'>,
): void {
  if (minScore === undefined) return
  const { score } = summaryOfSide(candidate, [...trials.values()])
  if (score >= minScore) held.push(`The score is ${score}, at least ${minScore}`)
  else failed.push(`The score is ${score}, below ${minScore}`)
}

/** Those of the suite, and not only those that the run has chosen. */
function checkRequired(
  candidate: EvalSide,
  baseline: EvalSide | null,
  trials: ReadonlyMap<string, CaseTrials>,
  { failed, unknown, held }: Reasons,
): void {
  const required = requiredCases(candidate, baseline)
  const run = required.flatMap((id) => trials.get(id) ?? [])
  const lost = run.filter((trial) => !isPassedTrial(trial))
  const left = required.filter((id) => !trials.has(id))
  for (const { id } of lost.slice(0, 20)) failed.push(`The required case "${id}" did not pass`)
  for (const id of left.slice(0, 20)) unknown.push(`The required case "${id}" was not run`)
  if (lost.length + left.length === 0 && required.length > 0)
    held.push(`All ${required.length} required cases passed`)
}

function requiredCases(candidate: EvalSide, baseline: EvalSide | null): string[] {
  const planned = new Set(candidate.cases.map(({ id }) => id))
  const left = leftOutCases(candidate, baseline).filter(({ id }) => !planned.has(id))
  const required = [...candidate.cases, ...left].filter((each) => each.required)
  return [...new Set(required.map(({ id }) => id))]
}

/** All that is known of the suite beside what the candidate was to run. */
function leftOutCases(
  candidate: EvalSide,
  baseline: EvalSide | null,
): { id: string; required: boolean }[] {
  const isSame = baseline?.suiteDigest === candidate.suiteDigest
  return [...candidate.leftOut, ...(isSame ? [...baseline.cases, ...baseline.leftOut] : [])]
}

/** Whoever runs the easy ones alone has shown nothing of the others: so it is with every rule. */
function checkWhole(
  candidate: EvalSide,
  baseline: EvalSide | null,
  trials: ReadonlyMap<string, CaseTrials>,
  unknown: string[],
): boolean {
  const before = unknown.length
  const isOther = baseline !== null && baseline.suiteDigest !== candidate.suiteDigest
  const ran = isOther ? [] : (baseline?.cases ?? [])
  const left = ran.filter(({ id }) => !trials.has(id)).length
  if (isOther) unknown.push('The baseline is of another suite: run it again with this one')
  if (left > 0) unknown.push(notRun(left, 'baseline'))
  const known = new Set(leftOutCases(candidate, baseline).map(({ id }) => id))
  const missing = [...known].filter((id) => !trials.has(id)).length
  if (missing > left) unknown.push(notRun(missing, 'suite'))
  return unknown.length === before
}

const notRun = (count: number, whose: string): string =>
  `${count} ${count === 1 ? 'case' : 'cases'} of the ${whose} ${count === 1 ? 'was' : 'were'} not run`

function checkInterval(
  { minCases }: GateRule,
  { confidence, allowedDrop, blocks }: NonNullable<GateRule['interval']>,
  given: {
    baseline: EvalSide | null
    trials: ReadonlyMap<string, CaseTrials>
    seed: number
  },
  { failed, unknown, held }: Reasons,
): void {
  const { baseline, trials, seed } = given
  if (baseline === null) return void unknown.push('There is no baseline to compare with')
  const differences = [...trialsOfSide(baseline).values()].flatMap((was) => {
    const after = trials.get(was.id)
    return after === undefined ? [] : [Math.round((after.score - was.score) * 1e9) / 1e9]
  })
  if (differences.length < minCases)
    return void unknown.push(
      `${differences.length} cases can be compared, and the rule needs at least ${minCases}`,
    )
  const interval = confidenceInterval(differences, { confidence, seed })
  if (interval === null) return void unknown.push('Nothing can be compared')
  const { low, high } = interval
  const shown = `the difference to the baseline is between ${points(low)} and ${points(high)} (${confidence * 100} %)`
  const chance = signFlipChance(differences.map((difference) => difference + allowedDrop))
  const isBeyond = high < -allowedDrop
  const likely = `, and chance alone loses as much in ${(chance * 100).toFixed(1)} %`
  if (isBeyond && isSignFlipRare(chance, confidence))
    failed.push(`It is shown to be worse: ${shown}`)
  else if (low < -allowedDrop && blocks === 'not_shown_equal')
    unknown.push(`A drop of more than ${allowedDrop} is not ruled out: ${shown}`)
  else held.push(`It is not shown to be worse: ${shown}${isBeyond ? likely : ''}`)
}

const points = (value: number): string => `${value > 0 ? '+' : ''}${value.toFixed(3)}`
