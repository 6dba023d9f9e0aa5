import { errorCodeOf } from '../../contract/error.ts'
import type { GateDecision } from '../../contract/eval-compare.ts'
import type { EvalBaseline, EvalGate } from '../../contract/eval-run.ts'
import type { EvalRunApi } from '../eval-run/eval-run.ts'
import { decidePromotion } from '../evals/compare/promotion.ts'
import type { Caller } from '../session/record/caller.ts'
import { loadEvalSides, evalSideOf } from './eval-sides.ts'

/** Refuses a made-up id, and all of them in a deployment that has no objects for eval runs. */
export type EvalRunOf = (id: string) => Promise<Pick<EvalRunApi, 'runs'>>

/** Whether one target of a run is good enough by the rule of a baseline. */
export async function decideEvalGate(
  evalRun: EvalRunOf,
  caller: Caller,
  found: Pick<EvalBaseline, 'evalRunId' | 'target' | 'rule'>,
  candidate: { evalRunId: string; target: string | undefined },
): Promise<EvalGate> {
  const { run, sides } = await loadEvalSides(await evalRun(candidate.evalRunId), caller)
  // A baseline whose run was deleted has nothing to compare with.
  const before = await loadSides(evalRun, caller, found.evalRunId).catch(unlessGone)
  const baseline = before && evalSideOf(before.sides, found.target)
  const decided = decidePromotion(found.rule, evalSideOf(sides, candidate.target), baseline)
  const gate: GateDecision =
    run.status === 'completed'
      ? decided
      : { outcome: 'inconclusive', reasons: [`The run is ${run.status}`, ...decided.reasons] }
  return { ...gate, evalRunId: run.id, hash: run.hash, baselineRunId: found.evalRunId }
}

const loadSides = async (evalRun: EvalRunOf, caller: Caller, id: string) =>
  loadEvalSides(await evalRun(id), caller)

function unlessGone(error: unknown): null {
  if (errorCodeOf(error) !== 'not_found') throw error
  return null
}
