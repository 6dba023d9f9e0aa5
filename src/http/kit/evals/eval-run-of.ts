import { AppError } from '../../../contract/error.ts'
import type { EvalRunApi } from '../../../core/eval-run/eval-run.ts'
import type { PromotionPorts } from '../../../core/verbs/promote-revision.ts'
import type { AppDeps } from '../deps.ts'

/** Of a deployment that can run evals; any other says so. */
export function evalRunsOf({ evalRun }: Pick<AppDeps, 'evalRun'>): (id: string) => EvalRunApi {
  if (evalRun !== null) return evalRun
  throw new AppError(
    'not_configured',
    'This deployment cannot run evals yet: it has no binding EVAL for its objects. Deploy it with the one of wrangler.toml (docs/deploy.md)',
  )
}

/** A made-up id reaches no object. */
export async function evalRunOf(
  deps: Pick<AppDeps, 'evalRun' | 'ids'>,
  id: string,
): Promise<EvalRunApi> {
  const evalRun = evalRunsOf(deps)
  if (!(await deps.ids.check(`ses_${id.slice(4)}`)))
    throw new AppError('not_found', 'No such eval run')
  return evalRun(id)
}

/** What a verb that releases something asks its gates with. */
export const promotionPorts = <
  Deps extends Pick<AppDeps, 'evalRun' | 'ids' | 'db' | 'crypto' | 'now'>,
>(
  deps: Deps,
): Deps & PromotionPorts => ({ ...deps, evalRunOf: (id) => evalRunOf(deps, id) })
