import { z } from '@hono/zod-openapi'
import { zValidator } from '@hono/zod-validator'
import { defaultModelOf, ModelProvider, type ModelVendor } from '../../config.ts'
import { AppError, ErrorBody } from '../../contract/error.ts'
import * as schemas from '../../contract/model-list.ts'
import { ModelList } from '../../contract/model-list.ts'
import { modelRows, opencodeProviderOf, pricedAt, reasoningEfforts } from '../../contract/models.ts'
import { tooLarge } from '../kit/body.ts'
import type { AppDeps } from '../kit/deps.ts'
import type { AppContext, AppEnv } from '../kit/context.ts'
import { json } from '../kit/openapi.ts'
import { countUsage, relayHeaders, withIdleLimit } from '../kit/stream.ts'
import { requestLog } from '../kit/request-log.ts'
import { ok, type Route, route } from '../kit/route.ts'
import { nameSchemas } from '../kit/openapi-schemas.ts'

nameSchemas(schemas)

const tag = 'models'
const maxRequestBytes = 32 * 1024 * 1024
const maxErrorBytes = 256 * 1024
/** A model may think for minutes before its first byte; OpenCode's own fetch gives up after 300 s. */
const silenceMs = 290_000

/**
 * What a sandbox may ask of a vendor. The key is the deployment's, so whatever lists or reads stored things (files,
 * batches, kept responses) would show one session the work of another.
 */
const allowed: Record<ModelProvider, RegExp> = {
  anthropic: /^(POST v1\/messages(\/count_tokens)?|GET v1\/models(\/[\w.:-]+)?)$/,
  litellm: /^(POST (v1\/)?(chat\/completions|completions|responses|embeddings)|GET (v1\/)?models)$/,
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
      responses: { default: json(ErrorBody, "The vendor's own answer, or a refusal") },
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
  return { default: defaultModelOf(config), pricedAt, items }
}

async function callVendor(deps: AppDeps, c: AppContext): Promise<Response> {
  const { sessionId, ...sandbox } = c.get('sandbox')
  await deps.session(sessionId).agent.authorise(sandbox)
  const { provider, vendor } = vendorOf(deps, c.req.param('provider') as ModelProvider)
  const rest = c.req.path.slice(`/llm/${provider}/`.length)
  if (!allowed[provider].test(`${c.req.method} ${rest}`)) {
    throw new AppError('not_found', 'This call to the model vendor is not passed on')
  }
  const { search } = new URL(c.req.url)
  return await pass(deps, c, provider, vendor, `${vendor.baseUrl}/${rest}${search}`)
}

function vendorOf(deps: AppDeps, provider: ModelProvider) {
  const vendor = deps.config.models[provider]
  if (!vendor)
    throw new AppError('model_unavailable', `No key is set for the provider "${provider}"`)
  return { provider, vendor }
}

async function pass(
  deps: AppDeps,
  c: AppContext,
  provider: ModelProvider,
  vendor: ModelVendor,
  url: string,
): Promise<Response> {
  const headers = relayHeaders(c.req.raw.headers)
  headers.set(...credential[provider](vendor.apiKey))
  const request = limitedBody(c.req.raw)
  const upstream = new AbortController()
  c.req.raw.signal.addEventListener('abort', () => upstream.abort())
  const silence = setTimeout(() => upstream.abort(), silenceMs)
  let response: Response
  try {
    const init = {
      method: c.req.method,
      headers,
      body: request.body,
      // The key must not follow a redirect to wherever it points.
      redirect: 'manual' as const,
      signal: upstream.signal,
      duplex: 'half' as const,
    }
    response = await fetch(url, init)
  } catch (error) {
    if (request.isTooLarge()) throw tooLarge(maxRequestBytes)
    requestLog(deps.log, c)('warn', 'The model vendor cannot be reached', {
      provider,
      error: redact(String(error), vendor),
    })
    throw new AppError('model_unavailable', 'The model vendor cannot be reached')
  } finally {
    clearTimeout(silence)
  }
  return await relayAnswer(deps, c, vendor, response, upstream)
}

async function relayAnswer(
  deps: AppDeps,
  c: AppContext,
  vendor: ModelVendor,
  response: Response,
  upstream: AbortController,
): Promise<Response> {
  if (response.status >= 300 && response.status < 400) {
    upstream.abort()
    throw new AppError('model_unavailable', 'The model vendor answered with a redirect')
  }
  const headers = Object.fromEntries(relayHeaders(response.headers))
  const status = response.status as 200
  if (response.ok && response.body) {
    const counted = countUsage(response.body, (usage) => {
      const { sessionId, ...sandbox } = c.get('sandbox')
      // A sandbox that was replaced meanwhile is refused; its last call is then not counted.
      deps.defer(
        deps
          .session(sessionId)
          .agent.addModelUsage(sandbox, usage)
          .catch(() => undefined),
      )
    })
    return c.body(withIdleLimit(counted, silenceMs, upstream), status, headers)
  }
  // Vendors like to quote the key that they refuse.
  const text = redact(await readText(response.body), vendor)
  return c.body(text, status, headers)
}

interface LimitedBody {
  body: ReadableStream<Uint8Array> | null
  /** Known once it has been read that far. */
  isTooLarge(): boolean
}

function limitedBody(request: Request): LimitedBody {
  const announced = request.headers.get('content-length')
  if (announced !== null && Number(announced) > maxRequestBytes) throw tooLarge(maxRequestBytes)
  // With its length announced it is passed on untouched, and so with its length.
  if (!request.body || announced !== null) return { body: request.body, isTooLarge: () => false }
  let size = 0
  const body = request.body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        size += chunk.byteLength
        if (size > maxRequestBytes) controller.error(tooLarge(maxRequestBytes))
        else controller.enqueue(chunk)
      },
    }),
  )
  return { body, isTooLarge: () => size > maxRequestBytes }
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
