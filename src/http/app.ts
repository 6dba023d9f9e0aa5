import { OpenAPIHono } from '@hono/zod-openapi'
import { notConfigured, type Problem } from '../config.ts'
import { version } from '../contract/version.ts'
import type { AppDeps } from './kit/deps.ts'
import type { App, AppEnv } from './kit/context.ts'
import { answerError, answerNotFoundError, refuseInvalid } from './kit/errors.ts'
import { createGuards } from './kit/guards.ts'
import { isCallback, setHeaders } from './kit/headers.ts'
import { addOpenapiRoute } from './kit/openapi.ts'
import { configurationReadiness, createReadiness } from './kit/readiness.ts'
import { createRequestIds } from './kit/request-log.ts'
import { GroupedRouter } from './router.ts'
import { routes } from './routes/all.ts'
import { addExportKeysRoute } from './routes/exports.ts'
import { addHealthRoutes } from './routes/status.ts'

export type { AppDeps } from './kit/deps.ts'
export { type Config, parseConfig, readConfig } from '../config.ts'

/** Call it once per isolate: the caches of the guards live as long as the app. */
export function createApp(deps: AppDeps): App {
  const app = createBareApp(deps)
  const guards = createGuards(deps)
  for (const route of routes) route.add(app, deps, guards)
  addHealthRoutes(app, [], createReadiness(deps))
  addExportKeysRoute(app, deps)
  addOpenapiRoute(app)
  return app
}

/** While variables are missing: says which, on every route, instead of failing on each for its own reason. */
export function createUnconfiguredApp(
  deps: Pick<AppDeps, 'crypto' | 'log'>,
  problems: Problem[],
): App {
  const app = createBareApp(deps)
  const checks = configurationReadiness(problems)
  addHealthRoutes(app, problems, async () => ({ ready: false, version, checks }))
  app.all('*', () => {
    throw notConfigured(problems)
  })
  return app
}

/** What every answer has, whatever the route. */
function createBareApp(deps: Pick<AppDeps, 'crypto' | 'log'>): App {
  const router: App['router'] = new GroupedRouter()
  const app = new OpenAPIHono<AppEnv>({ defaultHook: refuseInvalid, router })
  const nextRequestId = createRequestIds(deps)
  app.use((c, next) => {
    c.set('requestId', nextRequestId())
    if (!isCallback(c)) setHeaders(c)
    return next()
  })
  app.onError(answerError(deps))
  app.notFound(answerNotFoundError(app))
  return app
}
