import { z } from '@hono/zod-openapi'
import { EvalCompared } from '../../contract/eval-compare.ts'
import { EvalBaseline, EvalBaselinePut, EvalGate } from '../../contract/eval-run.ts'
import { AppError } from '../../contract/error.ts'
import { EvalRunId, Text } from '../../contract/ids.ts'
import { compareSides } from '../../core/evals/compare/compare.ts'
import {
  findEvalBaseline,
  noEvalBaseline,
  putEvalBaseline,
} from '../../core/registry/evals/eval-baselines.ts'
import { mustMayUsePlace } from '../../core/registry/place.ts'
import type { Caller } from '../../core/session/record/caller.ts'
import { viewEvalGate } from '../../core/verbs/decide-eval-gate.ts'
import { loadEvalSides, evalSideOf } from '../../core/verbs/eval-sides.ts'
import type { AppDeps } from '../kit/deps.ts'
import { evalRunOf, evalRunsOf } from '../kit/evals/eval-run-of.ts'
import { ok, route } from '../kit/route.ts'

const tag = 'evals'
const limitedKeys = 'obeyed'
const RunParam = z.object({ evalRunId: EvalRunId })
const target = Text(100, 1).optional().describe('Needed if the run has several')

export const evalResultRoutes = [
  route({
    id: 'compareEvalRuns',
    method: 'get',
    path: '/v1/evals/runs/{evalRunId}/comparison',
    summary: 'Compare an eval run with another one of the same suite, case by case',
    tag,
    guard: 'read',
    limitedKeys,
    params: RunParam,
    query: z.strictObject({
      baseline: EvalRunId,
      target,
      seed: z.coerce
        .number()
        .int()
        .min(0)
        .max(2 ** 32 - 1)
        .default(1),
    }),
    answers: ok(EvalCompared, 'What differs, and what is shown'),
    refuses: ['not_found', 'unprocessable', 'not_configured'],
    async answer({ deps, caller, params, query: { baseline, target: name, seed } }) {
      const after = await sidesOf(deps, caller, params.evalRunId)
      const before = await sidesOf(deps, caller, baseline)
      const candidate = evalSideOf(after.sides, name)
      return {
        comparison: compareSides(evalSideOf(before.sides, name), candidate, { seed }),
        gate: null,
      }
    },
  }),

  route({
    id: 'putEvalBaseline',
    method: 'put',
    path: '/v1/evals/baselines',
    summary:
      'Say which run of a suite later ones of its project are held against, and by which rule',
    tag,
    guard: 'admin',
    body: EvalBaselinePut,
    answers: ok(EvalBaseline, 'The baseline'),
    refuses: ['not_found', 'wrong_state', 'unprocessable', 'not_configured'],
    async answer({ deps, caller, body }) {
      const { run, sides } = await sidesOf(deps, caller, body.evalRunId)
      if (run.status !== 'completed')
        throw new AppError(
          'wrong_state',
          `Cannot use run "${run.id}" as a baseline: it is ${run.status}`,
        )
      const { project, dataset, digest } = run
      const baseline = {
        ...{
          project,
          dataset,
          digest,
          evalRunId: run.id,
          target: evalSideOf(sides, body.target).target,
        },
        ...{ rule: body.rule, gates: body.gates, setBy: caller.keyId, setAt: deps.now() },
      }
      const { organisationId } = caller
      const by = { organisationId, maker: caller }
      await putEvalBaseline(deps.db(), deps.crypto, by, baseline)
      return baseline
    },
  }),

  route({
    id: 'getEvalBaseline',
    method: 'get',
    path: '/v1/evals/baselines',
    summary: 'Get the baseline of a suite in a project',
    tag,
    guard: 'read',
    limitedKeys,
    query: z.strictObject({ project: Text(64, 1).default('default'), dataset: Text(200, 1) }),
    answers: ok(EvalBaseline, 'The baseline'),
    refuses: ['not_found', 'forbidden', 'not_configured'],
    async answer({ deps, caller, query: { project, dataset } }) {
      evalRunsOf(deps)
      mustMayUsePlace(caller, project)
      const found = await findEvalBaseline(deps.db(), caller.organisationId, project, dataset)
      if (!found) throw noEvalBaseline(project, dataset)
      return found
    },
  }),

  route({
    id: 'getEvalGate',
    method: 'get',
    path: '/v1/evals/runs/{evalRunId}/gate',
    summary:
      'Whether a run is good enough to promote what it has tried, by the rule of its baseline',
    description: 'Never a pass while the run has not ended, or where results say too little.',
    tag,
    guard: 'read',
    limitedKeys,
    params: RunParam,
    query: z.strictObject({ target }),
    answers: ok(EvalGate, 'The decision, with its reasons and the hash of the run'),
    refuses: ['not_found', 'unprocessable', 'not_configured'],
    async answer({ deps, caller, params, query }) {
      const { evalRunId } = params
      const { project, dataset } = await (await evalRunOf(deps, evalRunId)).runs.view(caller)
      const found = await findEvalBaseline(deps.db(), caller.organisationId, project, dataset)
      if (!found) throw noEvalBaseline(project, dataset)
      const evalRun = (id: string) => evalRunOf(deps, id)
      return await viewEvalGate(evalRun, caller, found, { evalRunId, target: query.target })
    },
  }),
]

const sidesOf = async (deps: AppDeps, caller: Caller, id: string) =>
  loadEvalSides(await evalRunOf(deps, id), caller)
