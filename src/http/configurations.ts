import { createRoute, z } from '@hono/zod-openapi'
import {
  Configuration,
  ConfigurationCreate,
  ConfigurationRow,
  ConfigurationUpdate,
} from '../contract/configuration.ts'
import { AppError } from '../contract/error.ts'
import { modelRows, parseModel } from '../contract/models.ts'
import { page, PageQuery } from '../contract/page.ts'
import { type WarmPool, WarmPoolView } from '../contract/warm-pool.ts'
import {
  createConfiguration,
  deleteConfiguration,
  listConfigurations,
  loadConfiguration,
  updateConfiguration,
} from '../core/configurations/configuration.ts'
import type { Doors } from './auth.ts'
import type { AppDeps } from './deps.ts'
import type { App } from './env.ts'
import { cursorPair, json, jsonBody, pageOf, params, refusals } from './openapi.ts'

const tags = ['configurations']
const ListQuery = PageQuery.extend({ project: z.string().max(64).optional() })

export function addConfigurationRoutes(app: App, deps: AppDeps, doors: Doors): void {
  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/configurations',
      summary: 'Create a configuration',
      tags,
      ...doors.key('write', { json: true }),
      request: { body: jsonBody(ConfigurationCreate, true) },
      responses: {
        201: json(Configuration, 'The configuration'),
        ...refusals('wrong_state', 'unprocessable'),
      },
    }),
    async (c) => {
      const { organisationId } = c.get('caller')
      const input = withModelId(c.req.valid('json'))
      mustHaveProvider(input.warmPool)
      const now = deps.now()
      const made = await createConfiguration(deps.db(), deps.crypto, now, organisationId, input)
      if (made.warmPool.size > 0) await watch(made)
      c.header('location', `/v1/configurations/${made.id}`)
      return c.json(made, 201)
    },
  )

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/configurations',
      summary: 'List the configurations of the organisation, newest first',
      tags,
      ...doors.key('read'),
      request: { query: ListQuery },
      responses: { 200: json(page(ConfigurationRow), 'One page'), ...refusals('invalid_request') },
    }),
    async (c) => {
      const { limit, cursor, project = null } = c.req.valid('query')
      const before = cursorPair(cursor)
      const { organisationId } = c.get('caller')
      const wanted = { project, before, limit: limit + 1 }
      return c.json(pageOf(await listConfigurations(deps.db(), organisationId, wanted), limit), 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/configurations/{configurationId}',
      summary: 'Get a configuration',
      tags,
      ...doors.key('read'),
      request: { params: params.configuration },
      responses: { 200: json(Configuration, 'The configuration'), ...refusals('not_found') },
    }),
    async (c) => {
      const key = { ...c.get('caller'), ...c.req.valid('param') }
      return c.json(await loadConfiguration(deps.db(), key), 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'patch',
      path: '/v1/configurations/{configurationId}',
      summary: 'Change a configuration: a field that is given is replaced whole',
      tags,
      ...doors.key('write', { json: true }),
      request: { params: params.configuration, body: jsonBody(ConfigurationUpdate, true) },
      responses: {
        200: json(Configuration, 'The configuration'),
        ...refusals('not_found', 'wrong_state', 'unprocessable'),
      },
    }),
    async (c) => {
      const key = { ...c.get('caller'), ...c.req.valid('param') }
      const change = withModelId(c.req.valid('json'))
      mustHaveProvider(change.warmPool)
      const db = deps.db()
      const changed = await updateConfiguration(db, deps.crypto, deps.now(), key, change)
      if (changed.warmPool.size > 0 || change.warmPool) await watch(changed)
      return c.json(changed, 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'delete',
      path: '/v1/configurations/{configurationId}',
      summary: 'Delete a configuration with its secrets',
      tags,
      ...doors.key('write'),
      request: { params: params.configuration },
      responses: { 204: { description: 'It is gone' }, ...refusals('not_found') },
    }),
    async (c) => {
      const key = { ...c.get('caller'), ...c.req.valid('param') }
      await deleteConfiguration(deps.db(), key)
      await deps.organisation(key.organisationId).watchWarmPool(key.configurationId)
      return c.body(null, 204)
    },
  )

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/configurations/{configurationId}/warm-pool',
      summary: 'How many sandboxes wait for sessions of a configuration',
      tags,
      ...doors.key('read'),
      request: { params: params.configuration },
      responses: { 200: json(WarmPoolView, 'The pool'), ...refusals('not_found') },
    }),
    async (c) => {
      const key = { ...c.get('caller'), ...c.req.valid('param') }
      const { warmPool } = await loadConfiguration(deps.db(), key)
      const view = await deps.organisation(key.organisationId).warmPool(key.configurationId)
      return c.json({ ...view, ...warmPool }, 200)
    },
  )

  /** If this is lost, the pool hears of it with the next session that is created. */
  const watch = ({ organisationId, id }: Configuration) =>
    deps.organisation(organisationId).watchWarmPool(id)

  function mustHaveProvider(pool: WarmPool | undefined): void {
    if (!pool || pool.size === 0 || deps.config.defaultSandbox !== 'none') return
    const message = 'This deployment has no default sandbox provider: set GANTRY_DEFAULT_SANDBOX'
    throw new AppError('unprocessable', `Cannot keep a warm pool: ${message}`, [
      { path: 'warmPool.size', message },
    ])
  }

  /** Whatever the spelling, the table's own id is stored; an unknown model is refused. */
  function withModelId<T extends { defaultModel?: string | null | undefined }>(input: T): T {
    if (!input.defaultModel) return input
    const rows = modelRows(deps.config.extraModels)
    return { ...input, defaultModel: parseModel(input.defaultModel, rows).id }
  }
}
