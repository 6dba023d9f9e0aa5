import type { MiddlewareHandler } from 'hono'
import { AppError } from '../contract/error.ts'
import { type ApiKey, apiKeyPattern, type Scope } from '../contract/key.ts'
import { allowsScope, decideKeyState } from '../core/keys/key.ts'
import { readJson } from './body.ts'
import type { AppDeps } from './deps.ts'
import type { AppContext, AppEnv } from './env.ts'
import { KeyCache } from './key-cache.ts'
import { RateLimit } from './rate-limit.ts'

type Middleware = MiddlewareHandler<AppEnv>

/**
 * Who may enter which route. A door is both the check and its entry in the OpenAPI document, so that the two cannot
 * differ. Doors come first: a body is not read, and a parameter not looked at, before the caller is known.
 */
export interface Doors {
  /** For API keys of this scope; a session id in the path must be one of ours. `json`: the route reads a body. */
  key(scope: Scope, options?: { json: boolean }): Door<'apiKey'>
  /** For the sandbox of the session in the path, or of any session where the path names none. */
  sandbox(options?: { json?: boolean; mayBeExpired?: boolean }): SandboxDoor
  /** For whoever runs the deployment, by the one key of its configuration. Without one there is no such route. */
  operator(options?: { json: boolean }): Door<'operatorKey'>
  forgetKey(keyId: string): void
}

export interface Door<K extends string> {
  security: Record<K, string[]>[]
  middleware: Middleware[]
}

export interface SandboxDoor extends Door<'sandboxToken'> {
  /** The same check for a route that is its own middleware. */
  enter(c: AppContext): Promise<AppEnv['Variables']['sandbox']>
}

export function createDoors(deps: AppDeps): Doors {
  const keys = new KeyCache(deps)
  const limit = new RateLimit(deps.config.rateLimitPerMinute)

  async function activeKey(secret: string): Promise<ApiKey> {
    const known = await keys.find(secret)
    if (!known) throw new AppError('unauthenticated', 'This API key is not known')
    const state = decideKeyState(known.key, deps.now())
    if (state !== 'active') throw new AppError('unauthenticated', `This API key is ${state}`)
    keys.touch(known)
    return known.key
  }

  const stillAllowed = (secret: string) => async (): Promise<boolean> => {
    try {
      await activeKey(secret)
      return true
    } catch (error) {
      // While libSQL is away, what was allowed stays allowed.
      return !(error instanceof AppError && error.code === 'unauthenticated')
    }
  }

  function enterWithKey(scope: Scope): Middleware {
    return async (c, next) => {
      const secret = bearer(c)
      if (secret.split('.').length === 3) await refuseSandboxToken(secret)
      const key = await activeKey(secret)
      const waitSeconds = limit.take(key.id, deps.now())
      if (waitSeconds > 0) {
        c.header('retry-after', String(waitSeconds))
        throw new AppError('rate_limited', `Too many requests: try again in ${waitSeconds} s`)
      }
      if (!allowsScope(key.scopes, scope)) {
        throw new AppError('forbidden', `This API key lacks the scope "${scope}"`)
      }
      c.set('key', key)
      c.set('caller', { organisationId: key.organisationId, keyId: key.id, owner: key.owner })
      c.set('stillAllowed', stillAllowed(secret))
      await next()
    }
  }

  /** A sandbox is known, but has no business here. */
  async function refuseSandboxToken(token: string): Promise<never> {
    const { state } = await deps.tokens.verify(token)
    if (state === 'valid') throw new AppError('forbidden', 'This route requires an API key')
    if (state === 'expired') throw expired()
    throw new AppError('unauthenticated', 'This API key is not known')
  }

  const checkSessionId: Middleware = async (c, next) => {
    const id =
      c.req.param('sessionId') ?? sessionOf(owned.map((name) => c.req.param(name)).find(Boolean))
    if (id !== undefined && !(await deps.ids.check(id))) {
      throw new AppError('not_found', 'There is no such session')
    }
    await next()
  }

  async function enterAsSandbox(
    c: AppContext,
    mayBeExpired: boolean,
  ): Promise<AppEnv['Variables']['sandbox']> {
    const token = bearer(c)
    if (apiKeyPattern.test(token)) {
      await activeKey(token)
      throw notSandbox()
    }
    const check = await deps.tokens.verify(token)
    if (check.state === 'invalid') throw new AppError('unauthenticated', 'This token is not valid')
    const isExpired = check.state === 'expired'
    if (isExpired && !mayBeExpired) throw expired()
    const { sub, org, gen, source } = check.claims
    if (source !== 'sandbox') throw notSandbox()
    if ((c.req.param('sessionId') ?? sub) !== sub) {
      throw new AppError('other_session', 'This token belongs to another session')
    }
    return { sessionId: sub, organisationId: org, generation: gen, expired: isExpired }
  }

  const enterAsOperator: Middleware = async (c, next) => {
    const { operatorKey } = deps.config
    if (operatorKey === null) {
      throw new AppError('not_found', 'This deployment has no operator: set GANTRY_OPERATOR_KEY')
    }
    // Hashes, so that how long the comparison takes says nothing about the key.
    const [given, wanted] = await Promise.all(
      [bearer(c), operatorKey].map((key) => deps.crypto.sha256(key)),
    )
    if (given !== wanted) throw new AppError('unauthenticated', 'This is not the operator’s key')
    await next()
  }

  return {
    operator: ({ json } = { json: false }) => ({
      security: [{ operatorKey: [] }],
      middleware: [enterAsOperator, ...(json ? [readJson] : [])],
    }),
    key: (scope, { json } = { json: false }) => ({
      security: [{ apiKey: [scope] }],
      middleware: [enterWithKey(scope), checkSessionId, ...(json ? [readJson] : [])],
    }),
    sandbox: ({ json = false, mayBeExpired = false } = {}) => {
      const enter = (c: AppContext) => enterAsSandbox(c, mayBeExpired)
      const remember: Middleware = async (c, next) => {
        c.set('sandbox', await enter(c))
        await next()
      }
      return {
        security: [{ sandboxToken: [] }],
        middleware: [remember, ...(json ? [readJson] : [])],
        enter,
      }
    },
    forgetKey: (keyId) => keys.forget(keyId),
  }
}

/** Parameters whose ids begin with their session's characters. */
const owned = ['turnId', 'runId', 'approvalId', 'operationId', 'attemptId', 'checkpointId'] as const

export function sessionOf(id: string): string
export function sessionOf(id: string | undefined): string | undefined
export function sessionOf(id: string | undefined): string | undefined {
  return id === undefined ? undefined : `ses_${id.slice(4, 34)}`
}

function bearer(c: AppContext): string {
  const [, token] = /^Bearer +(\S+) *$/i.exec(c.req.header('authorization') ?? '') ?? []
  if (token === undefined) {
    throw new AppError('unauthenticated', 'Missing credentials: send "authorization: Bearer …"')
  }
  return token
}

const expired = () => new AppError('token_expired', 'This token has expired')
const notSandbox = () => new AppError('not_sandbox', 'Tool routes require sandbox authentication')
