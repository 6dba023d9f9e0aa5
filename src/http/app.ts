import { OpenAPIHono } from '@hono/zod-openapi'
import { addApprovalRoutes } from './approvals.ts'
import { addArtifactRoutes } from './artifacts.ts'
import { createDoors } from './auth.ts'
import { addBudgetRoutes } from './budgets.ts'
import { addCallRoutes } from './calls.ts'
import { addConfigurationRoutes } from './configurations.ts'
import type { AppDeps } from './deps.ts'
import type { AppEnv } from './env.ts'
import { answerError, answerNotFound, refuseInvalid } from './errors.ts'
import { addEnvRoutes } from './env-values.ts'
import { addEventRoutes } from './events.ts'
import { addKeyRoutes } from './keys.ts'
import { addKillSwitchRoutes } from './kill-switch.ts'
import { addLimitsRoutes } from './limits.ts'
import { addModelRoutes } from './models.ts'
import { addDocumentRoute } from './openapi.ts'
import { addOperationRoutes } from './operations.ts'
import { addPolicyRoutes } from './policies.ts'
import { addProviderRoutes } from './providers.ts'
import { addRunRoutes } from './runs.ts'
import { addSandboxRoutes } from './sandbox.ts'
import { addSecretRoutes } from './secrets.ts'
import { addSessionPolicyRoutes } from './session-policy.ts'
import { addSessionRoutes } from './sessions.ts'
import { addStatusRoutes } from './status.ts'
import { addTokenRoutes } from './tokens.ts'
import { addToolRoutes } from './tools.ts'
import { addTurnRoutes } from './turns.ts'
import { addWebhookRoutes } from './webhooks.ts'

export type { AppDeps } from './deps.ts'
export { type Config, parseConfig } from './config.ts'

/** Call it once per isolate: the caches of auth.ts live as long as the app. */
export function createApp(deps: AppDeps): OpenAPIHono<AppEnv> {
  const app = new OpenAPIHono<AppEnv>({ defaultHook: refuseInvalid })
  const nextRequestId = createRequestIds(deps)
  app.use(async (c, next) => {
    const requestId = nextRequestId()
    c.set('requestId', requestId)
    c.header('x-request-id', requestId)
    c.header('x-content-type-options', 'nosniff')
    c.header('cache-control', 'no-store')
    await next()
  })
  app.onError(answerError(deps))
  app.notFound(answerNotFound(app))

  const doors = createDoors(deps)
  addSessionRoutes(app, deps, doors)
  addTurnRoutes(app, deps, doors)
  addSessionPolicyRoutes(app, deps, doors)
  addRunRoutes(app, deps, doors)
  addBudgetRoutes(app, deps, doors)
  addOperationRoutes(app, deps, doors)
  addEventRoutes(app, deps, doors)
  addCallRoutes(app, deps, doors)
  addApprovalRoutes(app, deps, doors)
  addArtifactRoutes(app, deps, doors)
  addConfigurationRoutes(app, deps, doors)
  addSecretRoutes(app, deps, doors)
  addEnvRoutes(app, deps, doors)
  addKeyRoutes(app, deps, doors)
  addTokenRoutes(app, deps, doors)
  addPolicyRoutes(app, deps, doors)
  addWebhookRoutes(app, deps, doors)
  addProviderRoutes(app, deps, doors)
  addLimitsRoutes(app, deps, doors)
  addKillSwitchRoutes(app, deps, doors)
  addStatusRoutes(app, deps, doors)
  addSandboxRoutes(app, deps, doors)
  addToolRoutes(app, deps, doors)
  addModelRoutes(app, deps, doors)
  addDocumentRoute(app)
  return app
}

/** Random once per isolate and counted from there: it is only a name for the logs. */
function createRequestIds({ crypto }: AppDeps): () => string {
  let isolate = ''
  let count = 0
  return () => {
    // Not earlier: a Worker has no randomness before its first request.
    isolate ||= crypto.random(12)
    return `req_${isolate}${(count++).toString(36).padStart(8, '0')}`
  }
}
