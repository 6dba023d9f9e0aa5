import { createRoute, z } from '@hono/zod-openapi'
import { AppError } from '../contract/error.ts'
import { WebhookId } from '../contract/ids.ts'
import { page, PageQuery } from '../contract/page.ts'
import {
  Delivery,
  Webhook,
  WebhookCreate,
  WebhookCreated,
  WebhookTest,
} from '../contract/webhook.ts'
import { listDeliveries } from '../core/webhooks/list.ts'
import { postTest } from '../core/webhooks/test-post.ts'
import { createWebhook, deleteWebhook, listWebhooks } from '../core/webhooks/webhook.ts'
import type { Doors } from './auth.ts'
import type { AppDeps } from './deps.ts'
import type { App } from './env.ts'
import { cursorPair, json, jsonBody, pageOf, refusals } from './openapi.ts'

const tags = ['webhooks']
const params = z.object({ webhookId: WebhookId })

export function addWebhookRoutes(app: App, deps: AppDeps, doors: Doors): void {
  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/webhooks',
      summary: 'Have events posted to an address; the secret that signs them is shown once',
      tags,
      ...doors.key('admin', { json: true }),
      request: { body: jsonBody(WebhookCreate, true) },
      responses: {
        201: json(WebhookCreated, 'The webhook with its secret'),
        ...refusals('wrong_state', 'unprocessable'),
      },
    }),
    async (c) => {
      const input = c.req.valid('json')
      checkAddress(input.url)
      const { organisationId } = c.get('caller')
      const db = deps.db()
      return c.json(await createWebhook(db, deps.crypto, deps.now(), organisationId, input), 201)
    },
  )

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/webhooks',
      summary: 'List the webhooks of the organisation, newest first',
      tags,
      ...doors.key('admin'),
      request: { query: PageQuery },
      responses: { 200: json(page(Webhook), 'One page'), ...refusals('invalid_request') },
    }),
    async (c) => {
      const { limit, cursor } = c.req.valid('query')
      const wanted = { limit: limit + 1, before: cursorPair(cursor) }
      const rows = await listWebhooks(deps.db(), c.get('caller').organisationId, wanted)
      return c.json(pageOf(rows, limit), 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'delete',
      path: '/v1/webhooks/{webhookId}',
      summary: 'Delete a webhook; what is still on its way to it is dropped',
      tags,
      ...doors.key('admin'),
      request: { params },
      responses: { 204: { description: 'It is gone' }, ...refusals('not_found') },
    }),
    async (c) => {
      await deleteWebhook(deps.db(), { ...c.get('caller'), ...c.req.valid('param') })
      return c.body(null, 204)
    },
  )

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/webhooks/{webhookId}/test',
      summary: 'Post one signed test event now',
      tags,
      ...doors.key('admin'),
      request: { params },
      responses: { 200: json(WebhookTest, 'How it went'), ...refusals('not_found') },
    }),
    async (c) => c.json(await postTest(deps, { ...c.get('caller'), ...c.req.valid('param') }), 200),
  )

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/webhooks/{webhookId}/deliveries',
      summary: 'List what was sent to a webhook, newest first',
      tags,
      ...doors.key('admin'),
      request: { params, query: PageQuery },
      responses: {
        200: json(page(Delivery), 'One page'),
        ...refusals('invalid_request', 'not_found'),
      },
    }),
    async (c) => {
      const { limit, cursor } = c.req.valid('query')
      const key = { ...c.get('caller'), ...c.req.valid('param') }
      const wanted = { limit: limit + 1, before: cursorPair(cursor) }
      return c.json(pageOf(await listDeliveries(deps.db(), key, wanted), limit), 200)
    },
  )

  function checkAddress(url: string): void {
    const message = deps.webhooks.refusal(url)
    if (message === null) return
    throw new AppError('unprocessable', `Cannot post to this address: ${message}`, [
      { path: 'url', message },
    ])
  }
}
