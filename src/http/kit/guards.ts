import type { z } from '@hono/zod-openapi'
import type { MiddlewareHandler } from 'hono'
import { AppError, errorCodeOf } from '../../contract/error.ts'
import { type ApiKey, apiKeyPattern, type Scope } from '../../contract/key.ts'
import { loadAgentById } from '../../core/registry/agents/agents.ts'
import { loadConfiguration } from '../../core/registry/configurations/configurations.ts'
import { loadProfile } from '../../core/registry/agents/profiles.ts'
import { keyAllowsScope, decideKeyState } from '../../core/registry/keys.ts'
import { viewPromotion } from '../../core/registry/evals/promotions.ts'
import { loadProposal } from '../../core/registry/skills/proposals.ts'
import { loadSkill } from '../../core/registry/skills/skills.ts'
import type { Caller } from '../../core/session/record/caller.ts'
import { loadMemory } from '../../core/registry/memories/memories.ts'
import { findWebhookTarget } from '../../core/registry/webhooks/webhooks.ts'
import { readJson } from './body.ts'
import { evalRunOf } from './evals/eval-run-of.ts'
import type { AppDeps } from './deps.ts'
import { type AppContext, type AppEnv, contextSessionId } from './context.ts'
import { KeyCache } from './key-cache.ts'
import { RateLimit } from './rate-limit.ts'

type Middleware = MiddlewareHandler<AppEnv>

/**
 * Who may enter which route. A guard is both the check and its entry in the OpenAPI document, so that the two cannot
 * differ. Guards come first: a body is not read, and a parameter not looked at, before the caller is known.
 *
 * Made once per isolate by app.ts; route.ts asks for the guard of each route. What a guard finds out about the caller is
 * in the request's variables (env.ts). It keeps keys for moments (key-cache.ts) and counts requests (rate-limit.ts).
 */
export interface Guards {
  at(entrance: Entrance, route?: GuardedRoute): Guard
  /** For a route that reads its body itself. */
  sandbox(options?: { mayBeExpired: boolean }): SandboxGuard
  forgetKey(keyId: string): void
  forgetMember(memberId: string): void
  /** All keys of it. */
  forgetOrganisation(organisationId: string): void
}

/**
 * Keys of a scope (a session id in the path must be one of ours); the sandbox of the session in the path, or of any
 * session where the path names none, also one whose token has expired; whoever runs the deployment, by the one key of its
 * configuration (without one there is no such route).
 */
export type Entrance = Scope | 'sandbox' | 'expired-sandbox' | 'operator'

interface GuardedRoute {
  /** It takes one in JSON. */
  body?: z.ZodType | undefined
  /** A limited key may enter although the path names no session. */
  limitedKeys?: 'obeyed'
}

interface Guard {
  security: Record<string, string[]>[]
  middleware: Middleware[]
}

export interface SandboxGuard extends Guard {
  /** The same check for a route that is its own middleware. */
  enter(c: AppContext): Promise<AppEnv['Variables']['sandbox']>
}

export function createGuards(deps: AppDeps): Guards {
  const keys = new KeyCache(deps)
  const limit = new RateLimit(deps.config.rateLimitPerMinute)

  async function activeKey(secret: string, address: string): Promise<ApiKey> {
    const known = await keys.find(secret, address)
    if (!known) throw new AppError('unauthenticated', 'This API key is not known')
    const state = decideKeyState(known.key, deps.now())
    if (state !== 'active') throw new AppError('unauthenticated', `This API key is ${state}`)
    keys.touch(known)
    return known.key
  }

  const stillAllowed = (secret: string, address: string) => async (): Promise<boolean> => {
    try {
      await activeKey(secret, address)
      return true
    } catch (error) {
      // While libSQL is away, what was allowed stays allowed.
      return !(error instanceof AppError && error.code === 'unauthenticated')
    }
  }

  function enterWithKey(scope: Scope, limitedKeys?: 'obeyed'): Middleware {
    return async (c, next) => {
      const secret = bearer(c)
      if (secret.split('.').length === 3) await refuseSandboxToken(secret)
      const address = deps.addressOf(c)
      const key = await activeKey(secret, address)
      limit.take(key.id, deps.now())
      if (!keyAllowsScope(key.scopes, scope)) {
        throw new AppError('forbidden', `This API key lacks the scope "${scope}"`)
      }
      if (key.limits !== null && limitedKeys === undefined && contextSessionId(c) === undefined) {
        throw new AppError('forbidden', 'This route is not for API keys with limits')
      }
      c.set('caller', callerOf(key, deps.now(), c.get('requestId')))
      c.set('stillAllowed', stillAllowed(secret, address))
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
    const id = contextSessionId(c)
    if (id !== undefined && !(await deps.ids.check(id))) {
      throw new AppError('not_found', 'There is no such session')
    }
    await next()
    if (c.error !== undefined && isAboutInput(c.error)) await mustBeOwn(c, id)
  }

  /** A refused body must not tell that the thing exists elsewhere. Asked only then, so that it costs others nothing. */
  async function mustBeOwn(c: AppContext, sessionId: string | undefined): Promise<void> {
    const caller = c.get('caller')
    const { organisationId } = caller
    const given = c.req.param() as Record<string, string | undefined>
    const { evalRunId, promotionId } = given
    const { agentId, configurationId, memoryId, profileId, proposalId, skillId, webhookId } = given
    if (agentId !== undefined) await loadAgentById(deps.db(), caller, agentId)
    if (profileId !== undefined) await loadProfile(deps.db(), caller, profileId)
    if (skillId !== undefined) await loadSkill(deps.db(), caller, skillId)
    if (proposalId !== undefined) await loadProposal(deps.db(), caller, proposalId)
    if (promotionId !== undefined) await viewPromotion(deps.db(), caller, promotionId)
    if (sessionId !== undefined) await deps.session(sessionId).self.view(caller)
    if (configurationId !== undefined)
      await loadConfiguration(deps.db(), { ...caller, configurationId })
    if (evalRunId !== undefined) await (await evalRunOf(deps, evalRunId)).runs.view(caller)
    if (memoryId !== undefined) await loadMemory(deps.db(), c.get('caller'), memoryId)
    if (
      webhookId !== undefined &&
      !(await findWebhookTarget(deps.db(), { organisationId, webhookId }))
    )
      throw new AppError('not_found', 'There is nothing with this id')
  }

  async function enterAsSandbox(
    c: AppContext,
    mayBeExpired: boolean,
  ): Promise<AppEnv['Variables']['sandbox']> {
    const token = bearer(c)
    if (apiKeyPattern.test(token)) {
      await activeKey(token, deps.addressOf(c))
      throw notSandbox()
    }
    const check = await deps.tokens.verify(token)
    if (check.state === 'invalid') throw new AppError('unauthenticated', 'This token is not valid')
    const isExpired = check.state === 'expired'
    if (isExpired && !mayBeExpired) throw expired()
    const { sub, org, gen, source, exp } = check.claims
    if (source !== 'sandbox') throw notSandbox()
    if ((c.req.param('sessionId') ?? sub) !== sub) {
      throw new AppError('other_session', 'This token belongs to another session')
    }
    // By generation: a sandbox that was replaced cannot use up what its successor needs.
    limit.take(`${sub}.${gen}`, deps.now(), costOf(c.req.path))
    const requestId = c.get('requestId')
    const expiredAt = isExpired ? exp * 1000 : null
    return { sessionId: sub, organisationId: org, generation: gen, expiredAt, requestId }
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

  const key = (scope: Scope, limitedKeys?: 'obeyed'): Guard => ({
    security: [{ apiKey: [scope] }],
    middleware: [enterWithKey(scope, limitedKeys), checkSessionId],
  })

  const operator: Guard = { security: [{ operatorKey: [] }], middleware: [enterAsOperator] }

  function sandbox({ mayBeExpired } = { mayBeExpired: false }): SandboxGuard {
    const enter = (c: AppContext) => enterAsSandbox(c, mayBeExpired)
    const remember: Middleware = async (c, next) => {
      c.set('sandbox', await enter(c))
      await next()
    }
    return { security: [{ sandboxToken: [] }], middleware: [remember], enter }
  }

  function guardOf(entrance: Entrance, limitedKeys?: 'obeyed'): Guard {
    if (entrance === 'operator') return operator
    if (entrance === 'sandbox') return sandbox()
    return entrance === 'expired-sandbox'
      ? sandbox({ mayBeExpired: true })
      : key(entrance, limitedKeys)
  }

  return {
    at(entrance, { body, limitedKeys } = {}) {
      const { security, middleware } = guardOf(entrance, limitedKeys)
      return { security, middleware: body ? [...middleware, readJson(body)] : middleware }
    },
    sandbox,
    forgetKey: (keyId) => keys.forget(({ id }) => id === keyId),
    forgetMember: (memberId) => keys.forget((key) => key.memberId === memberId),
    forgetOrganisation: (id) => keys.forget((key) => key.organisationId === id),
  }
}

function callerOf(key: ApiKey, now: number, requestId: string): Caller {
  const { organisationId, id: keyId, memberId, owner, scopes, limits } = key
  const countsAs = key.countsAs !== null && now < key.countsAs.until ? key.countsAs : null
  return { organisationId, keyId, memberId, owner, countsAs, scopes, limits, requestId }
}

function bearer(c: AppContext): string {
  const [, token] = /^Bearer +(\S+) *$/i.exec(c.req.header('authorization') ?? '') ?? []
  if (token === undefined) {
    throw new AppError('unauthenticated', 'Missing credentials: send "authorization: Bearer …"')
  }
  return token
}

/** Of the limit of a sandbox: opening a link costs the session more than a call does, a manifest or an upload as well. */
function costOf(path: string): number {
  if (path.endsWith('/link')) return 25
  return path.startsWith('/sandbox/') ? 5 : 1
}

const isAboutInput = (error: Error): boolean =>
  ['invalid_request', 'too_large'].includes(errorCodeOf(error) ?? '')

const expired = () => new AppError('token_expired', 'This token has expired')
const notSandbox = () => new AppError('not_sandbox', 'Tool routes require sandbox authentication')
