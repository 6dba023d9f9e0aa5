import { AppError, type ErrorDetail } from '../../contract/error.ts'
import type { EvalBaseline } from '../../contract/eval-run.ts'
import type { Promotion, PromotionAsk, RegistryRevision } from '../../contract/promotion.ts'
import type { Clock, Crypto, Db } from '../ports.ts'
import {
  findEvalBaseline,
  findGuardBaselines,
  noEvalBaseline,
} from '../registry/evals/eval-baselines.ts'
import { findRunsThatTried } from '../registry/evals/eval-runs.ts'
import { mustMayUsePlace } from '../registry/place.ts'
import {
  askPromotion,
  isPromoted,
  type Passed,
  recordPassedPromotion,
} from '../registry/evals/promotions.ts'
import type { Caller } from '../session/record/caller.ts'
import { countingRevisionHash } from './counting-revision.ts'
import {
  evalGateSentence,
  decideEvalGate,
  type EvalRunOf,
  evalGateDifferences,
  unlessEvalGone,
} from './decide-eval-gate.ts'

export interface PromotionPorts {
  db(): Db
  crypto: Pick<Crypto, 'random'>
  now: Clock
  evalRunOf: EvalRunOf
}

export interface Released extends RegistryRevision {
  /** Null: the whole organisation's. */
  project: string | null
  /** The hash of what counts today; null: nothing does. Asked only if somebody guards the row. */
  current: () => Promise<string | null>
}

/**
 * Every verb that releases a revision asks this first. If nothing guards the row, or the revision counts already, it may.
 * Else each suite that guards it needs a promotion: one that people gave, or one that is recorded now because the newest
 * run that tried exactly this revision, and nothing else that the baseline had not, passes the rule. Otherwise it is
 * refused, with what is missing for each suite.
 */
export async function mustBePromoted(
  ports: PromotionPorts,
  caller: Caller,
  { project, current, ...revision }: Released,
): Promise<void> {
  const db = ports.db()
  const guards = await findGuardBaselines(db, caller.organisationId, { project, ...revision })
  if (guards.length === 0 || (await current()) === revision.sha256) return
  const refusals: ErrorDetail[] = []
  for (const guard of guards) {
    const where = { ...guard, ...revision }
    if (await isPromoted(db, caller.organisationId, where)) continue
    const found = await decide(ports, caller, guard, revision)
    if (found.outcome !== 'pass') refusals.push(refusalOf(guard, revision, found))
    else if (found.run) {
      const at = { db, crypto: ports.crypto, now: ports.now() }
      await recordPassedPromotion(at, caller, where, { ...found.run, reasons: found.reasons })
    }
  }
  if (refusals.length === 0) return
  throw new AppError(
    'not_promoted',
    `Cannot release ${revision.kind} "${revision.name}" (${revision.sha256}): ${refusals.map(({ path }) => path).join(', ')} must pass first`,
    refusals,
  )
}

interface Decided {
  /** other: whatever its score is, it is not the revision's alone. */
  outcome: 'pass' | 'fail' | 'inconclusive' | 'other'
  reasons: string[]
  /** Null: nobody has tried the revision. */
  run: Passed | null
}

async function decide(
  ports: PromotionPorts,
  caller: Caller,
  guard: EvalBaseline,
  revision: RegistryRevision,
): Promise<Decided> {
  const runs = await findRunsThatTried(ports.db(), caller, guard, revision)
  let newest: Decided | null = null
  for (const tried of runs) {
    const differences = await differencesBeside(ports, caller, guard, tried, revision)
    // The run that counts is the newest one that can be compared; if there is none, people see the newest of all.
    if (differences.length > 0 && newest !== null) continue
    const gate = await decideEvalGate(ports.evalRunOf, caller, guard, tried).catch(unlessEvalGone)
    if (gate === null) continue
    const reasons = [...differences, ...gate.reasons]
    const decided = { reasons, run: { ...tried, runHash: gate.hash, reasons } }
    if (differences.length === 0) return { outcome: gate.outcome, ...decided }
    newest = { outcome: 'other', ...decided }
  }
  const reasons = [`There is no completed run of the suite with ${revision.sha256}`]
  return newest ?? { outcome: 'inconclusive', reasons, run: null }
}

/** In what else than the revision the run differs from the baseline. What its project has anyway may come with it. */
async function differencesBeside(
  ports: PromotionPorts,
  caller: Caller,
  guard: EvalBaseline,
  tried: { evalRunId: string; target: string },
  revision: RegistryRevision,
): Promise<string[]> {
  const { evalRunOf } = ports
  const found = await evalGateDifferences(evalRunOf, caller, guard, tried, revision)
  const place = { organisationId: caller.organisationId, project: guard.project }
  const unknown: string[] = []
  for (const one of found.brought)
    if ((await countingRevisionHash(ports.db(), place, one)) !== one.sha256)
      unknown.push(`${evalGateSentence(one)} and project "${guard.project}" has it not`)
  return [...found.differences, ...unknown]
}

const refusalOf = (
  { project, dataset }: EvalBaseline,
  { kind, sha256 }: RegistryRevision,
  { outcome, reasons, run }: Decided,
): ErrorDetail => ({
  path: `${project}/${dataset}`,
  message:
    run === null
      ? `${reasons.join('; ')}: run it with this ${kind}, in a project that does not guard it, and try again; or ask for an override of ${sha256} with POST /v1/evals/promotions`
      : outcome === 'other'
        ? `Run ${run.evalRunId} speaks not for this ${kind} alone: ${reasons.join('; ')}. Run the suite as the baseline was run, or ask for an override of ${sha256} with POST /v1/evals/promotions`
        : `Run ${run.evalRunId} is ${outcome === 'fail' ? 'worse' : outcome}: ${reasons.join('; ')}`,
})

/** Asks people to release a revision although its suite does not let it. */
export async function askForPromotion(
  ports: PromotionPorts,
  caller: Caller,
  { project, dataset, reason, ...revision }: PromotionAsk,
): Promise<Promotion> {
  mustMayUsePlace(caller, project)
  const db = ports.db()
  const guard = await findEvalBaseline(db, caller.organisationId, project, dataset)
  if (guard === null) throw noEvalBaseline(project, dataset)
  const { reasons, run } = await decide(ports, caller, guard, revision)
  const at = { db, crypto: ports.crypto, now: ports.now() }
  return await askPromotion(at, caller, { ...guard, ...revision }, { reason, reasons, run })
}
