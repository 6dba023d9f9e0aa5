import type { Log, LogFields } from '../../core/ports.ts'
import type { AppDeps } from './deps.ts'
import { type AppContext, type AppEnv, contextSessionId } from './context.ts'

/** Lines that belong to a request say which, whose, and about what: ids only, never a key or a token. */
export const requestLog =
  (log: Log, c: AppContext): Log =>
  (level, message, fields) =>
    log(level, message, { ...requestFields(c), ...fields })

function requestFields(c: AppContext): LogFields {
  // Before its guard a request has neither.
  const { caller, sandbox } = c.var as Partial<AppEnv['Variables']>
  const sessionId = contextSessionId(c) ?? sandbox?.sessionId
  const organisationId = caller?.organisationId ?? sandbox?.organisationId
  return {
    requestId: c.get('requestId'),
    method: c.req.method,
    path: c.req.path,
    ...(organisationId === undefined ? {} : { organisationId }),
    ...(sessionId === undefined ? {} : { sessionId }),
    ...(caller === undefined ? {} : { keyId: caller.keyId }),
    ...(sandbox === undefined ? {} : { generation: sandbox.generation }),
  }
}

/** Random once per isolate and counted from there: it is only a name for the logs. */
export function createRequestIds({ crypto }: Pick<AppDeps, 'crypto'>): () => string {
  let isolate = ''
  let count = 0
  return () => {
    // Not earlier: a Worker has no randomness before its first request.
    isolate ||= crypto.random(12)
    return `req_${isolate}${(count++).toString(36).padStart(8, '0')}`
  }
}
