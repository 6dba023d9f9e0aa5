import { AppError, ErrorBody } from '../../contract/error.ts'
import type { UpstreamCredential } from '../../core/session/upstreams/upstreams.ts'
import { readBody } from '../kit/body.ts'
import type { AppContext } from '../kit/context.ts'
import type { AppDeps } from '../kit/deps.ts'
import { openapiJson } from '../kit/openapi.ts'
import { requestLog } from '../kit/request-log.ts'
import type { Route } from '../kit/route.ts'
import {
  upstreamCredentialHeaders,
  upstreamRedactor,
  isReadable,
  upstreamBody,
  upstreamSentHeaders,
  upstreamShownHeaders,
} from '../kit/upstream/pass.ts'
import { originOf, upstreamRefusal } from '../kit/upstream/target.ts'

const maxRequestBytes = 32 * 1024 * 1024
const maxAnswerBytes = 1024 * 1024 * 1024
const silenceMs = 290_000
const longestMs = 30 * 60_000

// TRACE is not among them: it exists to be answered with the request.
const methods = ['get', 'post', 'put', 'patch', 'delete', 'options'] as const

/** Written by hand: the document has no word for a parameter with slashes in it. */
const upstreamRoute = (method: (typeof methods)[number]): Route => ({
  add(app, deps, guards) {
    const { security, middleware } = guards.at('sandbox')
    app.openAPIRegistry.registerPath({
      operationId: `${method}Upstream`,
      method,
      path: '/upstreams/{host}/{path}',
      summary: 'Reach a host that a secret of the session is for; the secret is put in here',
      tags: ['secrets'],
      security,
      parameters: ['host', 'path'].map((name) => ({
        ...{ name, in: 'path', required: true, schema: { type: 'string' } },
      })),
      responses: { default: openapiJson(ErrorBody, "The host's own answer, or a refusal") },
    })
    app.on(method.toUpperCase(), [upstreamPath], ...middleware, (c) => reach(deps, c))
  },
})

const upstreamPath = '/upstreams/:host/:path{.*}'

export const upstreamRoutes: Route[] = methods.map(upstreamRoute)

async function reach(deps: AppDeps, c: AppContext): Promise<Response> {
  const { sessionId, ...sandbox } = c.get('sandbox')
  const { host, rest } = targetOf(c.req.url)
  const credentials = await deps.session(sessionId).upstreams.admit(sandbox, host)
  // Also here: a mark may be older than what the deployment says.
  const refused = upstreamRefusal(host, deps.config.privateHosts)
  if (refused !== null) throw new AppError('forbidden', `Cannot reach "${host}": ${refused}`)
  const hasBody = c.req.method !== 'GET' && c.req.method !== 'HEAD'
  const body = hasBody ? await readBody(c.req.raw, maxRequestBytes) : null
  return await pass(deps, c, { host, url: originOf(host) + rest, body, credentials })
}

/** As it was written: what a server takes for its path is not ours to decode. */
function targetOf(text: string): { host: string; rest: string } {
  const { pathname, search } = new URL(text)
  const [, , host = '', ...path] = pathname.split('/')
  try {
    return { host: decodeURIComponent(host), rest: `/${path.join('/')}${search}` }
  } catch {
    throw new AppError('not_found', 'There is no such host')
  }
}

interface Call {
  host: string
  url: string
  body: Uint8Array | null
  credentials: UpstreamCredential[]
}

async function pass(deps: AppDeps, c: AppContext, call: Call): Promise<Response> {
  const { host, url, body, credentials } = call
  const log = requestLog(deps.log, c)
  const added = upstreamCredentialHeaders(credentials)
  const redactor = upstreamRedactor(credentials, added)
  const upstream = new AbortController()
  c.req.raw.signal.addEventListener('abort', () => upstream.abort())
  const silence = setTimeout(() => upstream.abort(), silenceMs)
  const response = await fetch(url, {
    method: c.req.method,
    headers: upstreamSentHeaders(c.req.raw.headers, added),
    body: body as Uint8Array<ArrayBuffer> | null,
    // Where it leads is for the sandbox to decide, without the secret.
    redirect: 'manual',
    signal: upstream.signal,
  })
    .catch((error: unknown) => {
      log('warn', 'An upstream cannot be reached', {
        host,
        error: redactor.redactText(String(error)),
      })
      throw new AppError('upstream_unavailable', `"${host}" cannot be reached`)
    })
    .finally(() => clearTimeout(silence))
  const onEnd = (received: number) =>
    log('info', 'Upstream', { host, status: response.status, sent: body?.length ?? 0, received })
  if (!isReadable(response.headers)) {
    upstream.abort()
    throw new AppError('upstream_unavailable', `"${host}" answers in an encoding that is not read`)
  }
  const headers = upstreamShownHeaders(response.headers, redactor)
  const { status } = response
  if (!response.body || c.req.method === 'HEAD' || [204, 205, 304].includes(status)) {
    onEnd(0)
    return new Response(null, { status, headers })
  }
  const limits = { silenceMs, longestMs, maxBytes: maxAnswerBytes, now: deps.now, upstream, onEnd }
  return new Response(upstreamBody(response.body, redactor, limits), { status, headers })
}
