import * as evaluatorSchemas from '../../contract/eval-evaluator.ts'
import * as responseSchemas from '../../contract/eval-response.ts'
import * as schemas from '../../contract/eval-suite.ts'
import { EvalChecked, EvalFiles } from '../../contract/eval-suite.ts'
import * as targetSchemas from '../../contract/eval-target.ts'
import { checkEvalFiles } from '../../core/evals/files/check.ts'
import { nameSchemas } from '../kit/openapi-schemas.ts'
import { ok, route } from '../kit/route.ts'

nameSchemas(schemas, targetSchemas, evaluatorSchemas, responseSchemas)

const tag = 'evals'

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
]
