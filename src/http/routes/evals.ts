import { sessionIdOfOwned } from '../../contract/ids.ts'
import { AppError } from '../../contract/error.ts'
import * as compareSchemas from '../../contract/eval-compare.ts'
import { EvalCompare, EvalCompared } from '../../contract/eval-compare.ts'
import * as evaluatorSchemas from '../../contract/eval-evaluator.ts'
import * as fromRunSchemas from '../../contract/eval-from-run.ts'
import { EvalFromRun, EvalFromRunMade } from '../../contract/eval-from-run.ts'
import * as responseSchemas from '../../contract/eval-response.ts'
import * as resultSchemas from '../../contract/eval-result.ts'
import * as schemas from '../../contract/eval-suite.ts'
import { EvalChecked, EvalFiles } from '../../contract/eval-suite.ts'
import * as targetSchemas from '../../contract/eval-target.ts'
import { compareSides } from '../../core/evals/compare/compare.ts'
import { decidePromotion } from '../../core/evals/compare/promotion.ts'
import { checkEvalFiles } from '../../core/evals/files/check.ts'
import { makeEvalCase } from '../../core/verbs/make-eval-case.ts'
import { allowLargerBody } from '../kit/body.ts'
import { nameSchemas } from '../kit/openapi-schemas.ts'
import { ok, route } from '../kit/route.ts'

nameSchemas(schemas, targetSchemas, evaluatorSchemas, responseSchemas)
nameSchemas(compareSchemas, resultSchemas, fromRunSchemas)
// Twice ten thousand rows, without long answers.
allowLargerBody(EvalCompare, 8 * 1024 * 1024)

const tag = 'evals'
const decoder = new TextDecoder()

export const evalRoutes = [
  route({
    id: 'validateEvals',
    method: 'post',
    path: '/v1/evals/validate',
    summary: 'Read eval and targets files and name every mistake with its place; nothing is stored',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    body: EvalFiles,
    answers: ok(EvalChecked, 'The suite and the targets without what is wrong, and what is wrong'),
    refuses: [],
    answer: async ({ body }) => checkEvalFiles(body),
  }),

  route({
    id: 'makeEvalCase',
    method: 'post',
    path: '/v1/evals/from-run',
    summary: 'Write an eval case from a run that has ended; nothing is stored',
    description:
      'Its prompts are asked, its repository is the workspace, and what it has changed and verified is expected.',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    body: EvalFromRun,
    answers: ok(EvalFromRunMade, 'An eval file with one case'),
    refuses: ['not_found', 'wrong_state', 'too_large', 'storage_unavailable'],
    async answer({ deps, caller, body }) {
      const sessionId = sessionIdOfOwned(body.runId)
      if (!(await deps.ids.check(sessionId))) throw new AppError('not_found', 'No such run')
      const textOf = (bytes: Uint8Array) => decoder.decode(bytes)
      return makeEvalCase({ ...deps, session: deps.session(sessionId), textOf }, caller, body)
    },
  }),

  route({
    id: 'compareEvals',
    method: 'post',
    path: '/v1/evals/compare',
    summary:
      'Compare the results of two runs, and hold them to the rule of a gate; nothing is stored',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    body: EvalCompare,
    answers: ok(EvalCompared, 'What differs, what is shown, and what the rule says'),
    refuses: [],
    answer: async ({ body: { baseline, candidate, seed, rule } }) => ({
      comparison: compareSides(baseline, candidate, { seed }),
      gate: rule === undefined ? null : decidePromotion(rule, candidate, baseline, { seed }),
    }),
  }),
]
