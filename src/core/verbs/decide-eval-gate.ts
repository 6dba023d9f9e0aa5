import { errorCodeOf } from '../../contract/error.ts'
import type { GateDecision } from '../../contract/eval-compare.ts'
import type { EvalBaseline, EvalGate } from '../../contract/eval-run.ts'
import type { RegistryRevision } from '../../contract/promotion.ts'
import type { EvalRunApi } from '../eval-run/eval-run.ts'
import { type ConditionDifferences, differencesOfConditions } from '../evals/compare/conditions.ts'
import { decidePromotion } from '../evals/compare/promotion.ts'
import type { Caller } from '../session/record/caller.ts'
import { loadEvalSides, evalSideOf } from './eval-sides.ts'

/** Refuses a made-up id, and all of them in a deployment that has no objects for eval runs. */
export type EvalRunOf = (id: string) => Promise<Pick<EvalRunApi, 'runs'>>

/** How a run stands to the baseline: by its rule, and in what else than answers the two differ. */
export async function viewEvalGate(
  evalRun: EvalRunOf,
  caller: Caller,
  found: Baseline,
  { evalRunId, target }: { evalRunId: string; target: string | undefined },
): Promise<EvalGate> {
  const gate = await decideEvalGate(evalRun, caller, found, { evalRunId, target })
  const compared = { evalRunId, target: gate.target }
  const { differences, brought } = await evalGateDifferences(evalRun, caller, found, compared, null)
  return { ...gate, differences: [...differences, ...brought.map(evalGateSentence)] }
}

export const evalGateSentence = ({ kind, name, sha256 }: RegistryRevision): string =>
  `It had the ${kind} "${name}" (${sha256}), and the baseline had it not`

type Baseline = Pick<EvalBaseline, 'evalRunId' | 'target' | 'rule' | 'digest'>

/** Whether one target of a run is good enough by the rule of a baseline. */
export async function decideEvalGate(
  evalRun: EvalRunOf,
  caller: Caller,
  found: Baseline,
  candidate: { evalRunId: string; target: string | undefined },
): Promise<Omit<EvalGate, 'differences'>> {
  const { run, sides } = await loadEvalSides(await evalRun(candidate.evalRunId), caller)
  // A baseline whose run was deleted has nothing to compare with.
  const before = await loadSides(evalRun, caller, found.evalRunId).catch(unlessEvalGone)
  const baseline = before && evalSideOf(before.sides, found.target)
  const side = evalSideOf(sides, candidate.target)
  const decided = decidePromotion(found.rule, side, baseline)
  const open = [
    ...(run.status === 'completed' ? [] : [`The run is ${run.status}`]),
    ...(run.digest === found.digest ? [] : ['The run is of another suite than the baseline']),
  ]
  const gate: GateDecision =
    open.length === 0
      ? decided
      : { outcome: 'inconclusive', reasons: [...open, ...decided.reasons] }
  const { target } = side
  return { ...gate, evalRunId: run.id, target, hash: run.hash, baselineRunId: found.evalRunId }
}

/** What else than answers differs from the baseline; with `promoted` beside that revision. */
export async function evalGateDifferences(
  evalRun: EvalRunOf,
  caller: Caller,
  found: Pick<Baseline, 'evalRunId' | 'target'>,
  candidate: { evalRunId: string; target: string },
  promoted: RegistryRevision | null,
): Promise<ConditionDifferences> {
  const load = async (id: string, target: string) =>
    (await evalRun(id)).runs.conditions(caller, target).catch(unlessEvalGone)
  const before = await load(found.evalRunId, found.target)
  const after = await load(candidate.evalRunId, candidate.target)
  if (before === null || after === null) {
    const which = before === null ? 'of the baseline' : candidate.evalRunId
    const differences = [`The run ${which} is not there any more: nobody can say what differs`]
    return { differences, brought: [] }
  }
  return differencesOfConditions(before, after, promoted)
}

const loadSides = async (evalRun: EvalRunOf, caller: Caller, id: string) =>
  loadEvalSides(await evalRun(id), caller)

export function unlessEvalGone(error: unknown): null {
  if (errorCodeOf(error) !== 'not_found') throw error
  return null
}
