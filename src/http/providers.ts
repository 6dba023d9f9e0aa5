import { createRoute, z } from '@hono/zod-openapi'
import { AppError } from '../contract/error.ts'
import {
  type CredentialsOf,
  E2bCredentials,
  ModalCredentials,
  OfferedProvider,
  Provider,
  ProviderList,
  ProviderReport,
  RemoteProvider,
} from '../contract/provider.ts'
import {
  countLiveSandboxes,
  deleteCredentials,
  listCredentials,
  saveCredentials,
} from '../core/providers/credentials.ts'
import type { Caller } from '../core/sessions/caller.ts'
import type { Doors } from './auth.ts'
import type { AppDeps } from './deps.ts'
import type { App } from './env.ts'
import { json, jsonBody, refusals } from './openapi.ts'
import { checkProvider } from './provider-checks.ts'

const tags = ['providers']
const WhileLive = z.strictObject({
  whileLive: z
    .enum(['true', 'false'])
    .default('false')
    .describe(
      'true: also while sandboxes live. With the credentials of another account they cannot be reached any more, and end by themselves within an hour',
    ),
})

/** Credentials come in and never go out. */
export function addProviderRoutes(app: App, deps: AppDeps, doors: Doors): void {
  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/providers',
      summary: 'List the sandbox providers, and whose credentials each uses',
      tags,
      ...doors.key('read'),
      responses: { 200: json(ProviderList, 'The providers'), ...refusals() },
    }),
    async (c) => c.json({ items: await list(c.get('caller')) }, 200),
  )

  app.openapi(
    createRoute({
      method: 'put',
      path: '/v1/providers/e2b/credentials',
      summary: "Set the organisation's own E2B account",
      tags,
      ...doors.key('admin', { json: true }),
      request: { query: WhileLive, body: jsonBody(E2bCredentials, true) },
      responses: {
        200: json(Provider, 'The provider'),
        ...refusals('invalid_request', 'wrong_state', 'unprocessable'),
      },
    }),
    async (c) => {
      const { whileLive } = c.req.valid('query')
      const fields = c.req.valid('json')
      mustBeReachable({ apiUrl: fields.apiUrl, sandboxUrl: fields.sandboxUrl })
      return c.json(await set(c.get('caller'), 'e2b', fields, whileLive === 'true'), 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'put',
      path: '/v1/providers/modal/credentials',
      summary: "Set the organisation's own Modal app",
      tags,
      ...doors.key('admin', { json: true }),
      request: { query: WhileLive, body: jsonBody(ModalCredentials, true) },
      responses: {
        200: json(Provider, 'The provider'),
        ...refusals('invalid_request', 'wrong_state', 'unprocessable'),
      },
    }),
    async (c) => {
      const { whileLive } = c.req.valid('query')
      const fields = c.req.valid('json')
      mustBeReachable({ url: fields.url })
      return c.json(await set(c.get('caller'), 'modal', fields, whileLive === 'true'), 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'delete',
      path: '/v1/providers/{name}/credentials',
      summary: "Delete the organisation's own credentials: from then on the deployment's count",
      tags,
      ...doors.key('admin'),
      request: { params: z.object({ name: RemoteProvider }), query: WhileLive },
      responses: { 204: { description: 'They are gone' }, ...refusals('not_found', 'wrong_state') },
    }),
    async (c) => {
      const { organisationId } = c.get('caller')
      const { name: provider } = c.req.valid('param')
      const { whileLive } = c.req.valid('query')
      const db = deps.db()
      await mustBeUnused(organisationId, provider, whileLive === 'true')
      await deleteCredentials(db, { organisationId, provider })
      deps.providers.forget(provider, organisationId)
      return c.body(null, 204)
    },
  )

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/providers/{name}/check',
      summary: 'What works at a provider, and what to do about what does not. Starts nothing',
      tags,
      ...doors.key('admin'),
      request: { params: z.object({ name: OfferedProvider }) },
      responses: { 200: json(ProviderReport, 'One result per check'), ...refusals('not_found') },
    }),
    async (c) => {
      const { name } = c.req.valid('param')
      return c.json(await checkProvider(deps, name, c.get('caller').organisationId), 200)
    },
  )

  async function list({ organisationId }: Pick<Caller, 'organisationId'>): Promise<Provider[]> {
    const own = await listCredentials(deps.db(), organisationId)
    return OfferedProvider.options.map((name) => {
      const row = own.find(({ provider }) => provider === name)
      const unless = deps.providers.ofDeployment.includes(name) ? 'deployment' : null
      return {
        name,
        source: row ? 'organisation' : unless,
        isDefault: deps.config.defaultSandbox === name,
        updatedAt: row?.updatedAt ?? null,
        updatedBy: row?.updatedBy ?? null,
      }
    })
  }

  async function set<P extends RemoteProvider>(
    { organisationId, keyId }: Caller,
    provider: P,
    fields: CredentialsOf[P],
    whileLive: boolean,
  ): Promise<Provider> {
    await mustBeUnused(organisationId, provider, whileLive)
    const key = { organisationId, provider }
    await saveCredentials(deps.db(), deps.crypto, deps.now(), key, { fields, keyId })
    deps.providers.forget(provider, organisationId)
    const [found] = (await list({ organisationId })).filter(({ name }) => name === provider)
    return found as Provider
  }

  /** In another account the living could be neither stopped nor counted. */
  async function mustBeUnused(
    organisationId: string,
    provider: RemoteProvider,
    whileLive: boolean,
  ): Promise<void> {
    if (whileLive) return
    const live = await countLiveSandboxes(deps.db(), { organisationId, provider })
    if (live === 0) return
    throw new AppError(
      'wrong_state',
      `Cannot change the credentials of "${provider}": ${live} of its sandboxes live. Close their sessions first, or, if the account stays the same, add ?whileLive=true`,
    )
  }

  /** The control plane calls these addresses on a caller's word. */
  function mustBeReachable(urls: Record<string, string | undefined>): void {
    for (const [path, url] of Object.entries(urls)) {
      const message = url === undefined ? null : deps.webhooks.refusal(url)
      if (message !== null)
        throw new AppError('unprocessable', `Cannot use this address: ${message}`, [
          { path, message },
        ])
    }
  }
}
