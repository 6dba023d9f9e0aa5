import { createRoute } from '@hono/zod-openapi'
import { ApiKey, KeyCreate, KeyCreated } from '../contract/key.ts'
import { page, PageQuery } from '../contract/page.ts'
import { createKey, listKeys, revokeKey } from '../core/keys/key.ts'
import type { Doors } from './auth.ts'
import type { AppDeps } from './deps.ts'
import type { App } from './env.ts'
import { cursorPair, json, jsonBody, pageOf, params, refusals } from './openapi.ts'

const tags = ['keys']

export function addKeyRoutes(app: App, deps: AppDeps, doors: Doors): void {
  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/keys',
      summary: 'Create an API key; its secret is shown once',
      tags,
      ...doors.key('admin', { json: true }),
      request: { body: jsonBody(KeyCreate, true) },
      responses: { 201: json(KeyCreated, 'The key with its secret'), ...refusals() },
    }),
    async (c) => {
      const asker = c.get('key')
      const input = c.req.valid('json')
      const owner = input.owner ?? asker.owner
      const key = await createKey(deps.db(), deps.crypto, deps.now(), asker.organisationId, {
        ...input,
        owner,
      })
      return c.json(key, 201)
    },
  )

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/keys',
      summary: 'List the API keys of the organisation, oldest first',
      tags,
      ...doors.key('admin'),
      request: { query: PageQuery },
      responses: { 200: json(page(ApiKey), 'One page'), ...refusals('invalid_request') },
    }),
    async (c) => {
      const { limit, cursor } = c.req.valid('query')
      const after = cursorPair(cursor)
      const organisationId = c.get('caller').organisationId
      const rows = await listKeys(deps.db(), organisationId, { limit: limit + 1, after })
      return c.json(pageOf(rows, limit), 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'delete',
      path: '/v1/keys/{keyId}',
      summary: 'Revoke an API key; everywhere within 30 seconds',
      tags,
      ...doors.key('admin'),
      request: { params: params.key },
      responses: { 204: { description: 'It is revoked' }, ...refusals('not_found') },
    }),
    async (c) => {
      const { keyId } = c.req.valid('param')
      await revokeKey(deps.db(), deps.now(), c.get('caller').organisationId, keyId)
      doors.forgetKey(keyId)
      return c.body(null, 204)
    },
  )
}
