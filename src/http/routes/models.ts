import { z } from '@hono/zod-openapi'
import { zValidator } from '@hono/zod-validator'
import { configDefaultModel, ModelProvider, type ModelVendor } from '../../config.ts'
import { AppError, ErrorBody } from '../../contract/error.ts'
import * as schemas from '../../contract/model-list.ts'
import type { CallEnd } from '../../core/session/budget/model-calls.ts'
import type { ModelCall } from '../../core/session/models/models.ts'
import { ModelList } from '../../contract/model-list.ts'
import { modelRows, opencodeProviderOf, pricedAt, reasoningEfforts } from '../../contract/models.ts'
import { readBody } from '../kit/body.ts'
import type { AppDeps } from '../kit/deps.ts'
import type { AppContext, AppEnv } from '../kit/context.ts'
import { openapiJson } from '../kit/openapi.ts'
import { listRequest, type ModelRequest, readModelRequest } from '../kit/model/model-request.ts'
import {
  modelStreamAnswerHeaders,
  meteredModelStream,
  modelStreamVendorHeaders,
} from '../kit/model/stream.ts'
import { requestLog } from '../kit/request-log.ts'
import { ok, type Route, route } from '../kit/route.ts'
import { nameSchemas } from '../kit/openapi-schemas.ts'

nameSchemas(schemas)

const tag = 'models'
const maxRequestBytes = 32 * 1024 * 1024
const maxErrorBytes = 256 * 1024
/** A model may think for minutes before its first byte; OpenCode's own fetch gives up after 300 s. */
const silenceMs = 290_000
/** An answer that does not end by then is cut off. */
const longestMs = 30 * 60_000
/** The session hears of an answer that still comes so often: well within the life of its reservation. */
const extendEveryMs = 60_000

/**
 * What a sandbox may ask of a vendor. The key is the deployment's, so whatever lists or reads stored things (files,
 * batches, kept responses) would show one session the work of another.
 */
const allowed: Record<ModelProvider, RegExp> = {
  anthropic: /^(POST v1\/messages(\/count_tokens)?|GET v1\/models(\/[\w.:-]+)?)$/,
  litellm: /^(POST (v1\/)?(chat\/completions|responses)|GET (v1\/)?models)$/,
}

const credential: Record<ModelProvider, (key: string) => [string, string]> = {
  anthropic: (key) => ['x-api-key', key],
  litellm: (key) => ['authorization', `Bearer ${key}`],
}

const Params = z.object({ provider: ModelProvider })
const refuse = ({ success }: { success: boolean }): void => {
  if (!success) throw new AppError('not_found', 'There is no such model provider')
}

/** Written by hand: the document has no word for a parameter with slashes in it. */
const vendorRoute = (method: 'get' | 'post'): Route => ({
  add(app, deps, guards) {
    const { security, middleware } = guards.at('sandbox')
    app.openAPIRegistry.registerPath({
      operationId: method === 'get' ? 'readFromModelVendor' : 'callModelVendor',
      method,
      path: '/llm/{provider}/{path}',
      summary: 'Call the model vendor; the key is put in here',
      tags: [tag],
      security,
      parameters: ['provider', 'path'].map((name) => ({
        ...{ name, in: 'path', required: true, schema: { type: 'string' } },
      })),
      responses: { default: openapiJson(ErrorBody, "The vendor's own answer, or a refusal") },
    })
    app.on(method.toUpperCase(), [vendorPath], ...middleware, checkProvider, (c) =>
      callVendor(deps, c),
    )
  },
})

const vendorPath = '/llm/:provider/:path{.+}'
// A route that is not made from the document brings its own validator.
const checkProvider = zValidator<typeof Params, 'param', AppEnv, typeof vendorPath, typeof refuse>(
  'param',
  Params,
  refuse,
)

export const modelRoutes: Route[] = [
  route({
    id: 'listModels',
    method: 'get',
    path: '/v1/models',
    summary: 'The models that a session can choose, with their limits and prices',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    answers: ok(ModelList, 'All of them'),
    refuses: [],
    answer: ({ deps }) => listModels(deps.config),
  }),
  vendorRoute('get'),
  vendorRoute('post'),
]

function listModels(config: AppDeps['config']): ModelList {
  const items = modelRows(config.extraModels).map((model) => ({
    id: model.id,
    maker: model.provider,
    served: config.models[opencodeProviderOf(model)] !== null,
    contextTokens: model.context,
    outputTokens: model.output,
    reasoningEfforts: reasoningEfforts(model),
    price: model.price,
  }))
  return { default: configDefaultModel(config), pricedAt, items }
}

async function callVendor(deps: AppDeps, c: AppContext): Promise<Response> {
  const { request, ...prepared } = await prepare(deps, c).catch(async (error: unknown) => {
    // A sandbox that may not ask at all is told that first.
    const { sessionId, ...sandbox } = c.get('sandbox')
    await deps.session(sessionId).agent.authorise(sandbox)
    throw error
  })
  const { body, ...call } = request
  const id = `llm_${deps.crypto.random(20)}`
  await admit(deps, c, { ...call, id, provider: prepared.provider })
  const meter = meterOf(deps, c, id)
  return await pass(deps, c, {
    ...{ ...prepared, body },
    ...(call.needs === null ? unmetered(meter) : meter),
  })
}

interface Prepared {
  provider: ModelProvider
  vendor: ModelVendor
  url: string
  request: ModelRequest
}

async function prepare(deps: AppDeps, c: AppContext): Promise<Prepared> {
  const { provider, vendor } = vendorOf(deps, c.req.param('provider') as ModelProvider)
  const rest = c.req.path.slice(`/llm/${provider}/`.length)
  if (!allowed[provider].test(`${c.req.method} ${rest}`)) {
    throw new AppError('not_found', 'This call to the model vendor is not passed on')
  }
  const isBeta = new URL(c.req.url).searchParams.get('beta') === 'true'
  const url = `${vendor.baseUrl}/${rest}${isBeta ? '?beta=true' : ''}`
  if (c.req.method === 'GET') return { provider, vendor, url, request: listRequest }
  const bytes = await readBody(c.req.raw, maxRequestBytes)
  return {
    ...{ provider, vendor, url },
    request: readModelRequest(rest, bytes, deps.config.modelExtras),
  }
}

function vendorOf(deps: AppDeps, provider: ModelProvider) {
  const vendor = deps.config.models[provider]
  if (!vendor)
    throw new AppError('model_unavailable', `No key is set for the provider "${provider}"`)
  return { provider, vendor }
}

/** The one question to the session: its answer decides, and reserves. */
async function admit(deps: AppDeps, c: AppContext, call: ModelCall): Promise<void> {
  const { sessionId, ...sandbox } = c.get('sandbox')
  const admission = await deps.session(sessionId).models.admit(sandbox, call)
  if (admission.admitted) return
  const seconds = Math.ceil(admission.waitMs / 1000)
  c.header('retry-after', String(seconds))
  throw new AppError('rate_limited', `${admission.reason}: try again in ${seconds} s`)
}

interface Meter {
  settle: (end: CallEnd) => void
  /** Something of the answer has come. */
  extend: () => void
}

function meterOf(deps: AppDeps, c: AppContext, id: string): Meter {
  const { sessionId, organisationId } = c.get('sandbox')
  const models = () => deps.session(sessionId).models
  let extendedAt = deps.now()
  return {
    settle: (end) => deps.defer(severalTimes(() => models().settle({ organisationId }, id, end))),
    extend() {
      if (deps.now() - extendedAt < extendEveryMs) return
      extendedAt = deps.now()
      deps.defer(severalTimes(() => models().extend({ organisationId }, id)))
    },
  }
}

/** Nothing was made, whatever the vendor says. */
const unmetered = ({ settle, extend }: Meter): Meter => ({
  settle: () => settle({ kind: 'free' }),
  extend,
})

/** Repeatable, and the object may just be restarting. If it stays away, the call's own deadline settles it. */
async function severalTimes(work: () => Promise<void>): Promise<void> {
  for (let tries = 1; tries <= 3; tries += 1)
    try {
      return await work()
    } catch {
      // The next try, or the deadline.
    }
}

interface Passing extends Omit<Prepared, 'request'>, Meter {
  body: string | null
}

async function pass(deps: AppDeps, c: AppContext, call: Passing): Promise<Response> {
  const { provider, vendor, url, body } = call
  const headers = modelStreamVendorHeaders(c.req.raw.headers)
  headers.set(...credential[provider](vendor.apiKey))
  if (body !== null) headers.set('content-type', 'application/json')
  const upstream = new AbortController()
  c.req.raw.signal.addEventListener('abort', () => upstream.abort())
  const silence = setTimeout(() => upstream.abort(), silenceMs)
  let response: Response
  try {
    const init = {
      method: c.req.method,
      headers,
      body,
      // The key must not follow a redirect to wherever it points.
      redirect: 'manual' as const,
      signal: upstream.signal,
    }
    response = await fetch(url, init)
  } catch (error) {
    // What the sandbox itself cuts off may have cost all of it; a vendor that cannot be reached costs nothing.
    const reason = 'The answer was not waited for'
    call.settle(
      upstream.signal.aborted ? { kind: 'broken', tokens: null, reason } : { kind: 'free' },
    )
    requestLog(deps.log, c)('warn', 'The model vendor cannot be reached', {
      provider,
      error: redact(String(error), vendor),
    })
    throw new AppError('model_unavailable', 'The model vendor cannot be reached')
  } finally {
    clearTimeout(silence)
  }
  return await relayAnswer(deps, c, call, response, upstream)
}

async function relayAnswer(
  deps: AppDeps,
  c: AppContext,
  call: Passing,
  response: Response,
  upstream: AbortController,
): Promise<Response> {
  if (response.status >= 300 && response.status < 400) {
    call.settle({ kind: 'free' })
    upstream.abort()
    throw new AppError('model_unavailable', 'The model vendor answered with a redirect')
  }
  const headers = Object.fromEntries(modelStreamAnswerHeaders(response.headers))
  const status = response.status as 200
  if (response.ok && response.body) {
    const isEventStream = /^text\/event-stream/i.test(response.headers.get('content-type') ?? '')
    const metering = {
      ...{ provider: call.provider, silenceMs, longestMs, now: deps.now, upstream },
      onPiece: () => call.extend(),
      onEnd: (end: CallEnd) => call.settle(end),
    }
    return c.body(meteredModelStream(response.body, isEventStream, metering), status, headers)
  }
  // A refusal costs nothing.
  call.settle({ kind: 'free' })
  // Vendors like to quote the key that they refuse.
  const text = redact(await readText(response.body), call.vendor)
  return c.body(text, status, headers)
}

async function readText(body: ReadableStream<Uint8Array> | null): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const chunk of body ?? []) {
    text += decoder.decode(chunk, { stream: true })
    if (text.length > maxErrorBytes) break
  }
  return text
}

function redact(text: string, { apiKey }: ModelVendor): string {
  return text.replaceAll(apiKey, '[secret:MODEL_KEY]')
}
