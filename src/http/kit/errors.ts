import type { Hook } from '@hono/zod-openapi'
import type { ErrorHandler, NotFoundHandler } from 'hono'
import { HTTPException } from 'hono/http-exception'
import {
  AppError,
  type ErrorBody,
  errorCodeOf,
  type ErrorDetail,
  errorTable,
} from '../../contract/error.ts'
import type { AppDeps } from './deps.ts'
import type { App, AppContext, AppEnv } from './context.ts'
import { setHeaders } from './headers.ts'
import { TooMany } from './rate-limit.ts'
import { requestLog } from './request-log.ts'

/** Every error leaves through here, in one envelope. */
export function answerError({ log }: Pick<AppDeps, 'log'>): ErrorHandler<AppEnv> {
  return (error, c) => {
    const refusal = refusalOf(error)
    if (refusal) {
      const { code, message } = refusal
      requestLog(log, c)('debug', 'Request refused', { code, reason: message })
      if (error instanceof TooMany) c.header('retry-after', String(error.retryAfterSeconds))
      return answer(c, refusal)
    }
    requestLog(log, c)('error', 'Request failed', { error: error.stack ?? String(error) })
    const text = `Something went wrong on our side; the request id is ${c.get('requestId')}`
    return answer(c, new AppError('internal', text))
  }
}

export function answerNotFoundError(app: App): NotFoundHandler<AppEnv> {
  let table: { path: RegExp; method: string }[] | undefined
  return (c) => {
    table ??= app.routes
      .filter(({ method }) => method !== 'ALL')
      .map(({ path, method }) => ({ path: pathPattern(path), method }))
    const methods = table.filter(({ path }) => path.test(c.req.path)).map(({ method }) => method)
    if (methods.length === 0) return answer(c, new AppError('not_found', 'There is no such route'))
    c.header('allow', [...new Set(methods)].join(', '))
    return answer(c, new AppError('method_not_allowed', `This route has no ${c.req.method}`))
  }
}

/** A wrong path parameter names nothing, so it is not found; everything else that zod refuses is a 400. */
export const refuseInvalid: Hook<unknown, AppEnv, string, unknown> = (result) => {
  if (result.success) return
  if (result.target === 'param') throw new AppError('not_found', 'There is nothing with this id')
  throw invalidIssuesError(result.error.issues)
}

/** However much is wrong with a body, so much of it is told. */
const maxDetails = 100

export function invalidIssuesError(issues: readonly Issue[]): AppError {
  const details = issues.slice(0, maxDetails).map(errorDetail)
  return invalidRequestError(details, summary(details, issues.length))
}

export function invalidRequestError(details: ErrorDetail[], message = summary(details)): AppError {
  return new AppError('invalid_request', message, details)
}

function summary(details: ErrorDetail[], all = details.length): string {
  const [first] = details
  if (!first) return 'The request is not valid'
  const rest = all > 1 ? ` (and ${all - 1} more)` : ''
  return `Invalid ${first.path || 'request'}: ${first.message}${rest}`
}

interface Issue {
  code?: string | undefined
  path: PropertyKey[]
  message: string
  keys?: string[]
}

export function errorDetail(issue: Issue): ErrorDetail {
  // zod names the object; callers want the field that should not be there.
  const extra = issue.code === 'unrecognized_keys' ? issue.keys?.slice(0, 1) : undefined
  const path = [...issue.path, ...(extra ?? [])].map(String).join('.')
  return { path: path.slice(0, 200), message: issue.message }
}

function refusalOf(error: Error): AppError | null {
  const code = errorCodeOf(error)
  // After RPC it is no AppError any more, only something with the same properties.
  if (code) return new AppError(code, error.message, (error as AppError).details)
  if (isRestart(error)) {
    return new AppError(
      'storage_unavailable',
      'The session is being restarted: send the same request again',
    )
  }
  if (error instanceof HTTPException && error.status < 500)
    return invalidRequestError([], error.message)
  return null
}

/** The platform took the object away in the middle of the call (a deployment, a crash): trying again is right. */
function isRestart(error: Error): boolean {
  const { retryable, durableObjectReset } = error as {
    retryable?: unknown
    durableObjectReset?: unknown
  }
  return retryable === true || durableObjectReset === true
}

function answer(c: AppContext, { code, message, details }: AppError): Response {
  const error: ErrorBody['error'] = details?.length ? { code, message, details } : { code, message }
  // The programs of model vendors look for the words of their own vendor.
  const isModelCall = c.req.path.startsWith('/llm/')
  const body = isModelCall ? { type: 'error', error: { type: code, ...error } } : { error }
  setHeaders(c)
  return c.json(body, errorTable[code].status)
}

function pathPattern(path: string): RegExp {
  const pattern = path
    .replaceAll('.', '\\.')
    .replaceAll(/:\w+\{\\\.\+\}/g, '.+')
    .replaceAll(/:\w+/g, '[^/]+')
  return new RegExp(`^${pattern}$`)
}
