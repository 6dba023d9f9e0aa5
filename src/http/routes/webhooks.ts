import { z } from '@hono/zod-openapi'
import { WebhookId } from '../../contract/ids.ts'
import { PageQuery } from '../../contract/page.ts'
import * as schemas from '../../contract/webhook.ts'
import {
  Delivery,
  Webhook,
  WebhookCreate,
  WebhookCreated,
  WebhookTest,
} from '../../contract/webhook.ts'
import {
  deleteWebhook,
  listWebhookDeliveries,
  listWebhooks,
  postWebhookTest,
} from '../../core/registry/webhooks/webhooks.ts'
import { createWebhook } from '../../core/verbs/create-webhook.ts'
import { datedPage } from '../kit/paging.ts'
import { created, gone, ok, route } from '../kit/route.ts'
import { listSchema, nameSchemas } from '../kit/openapi-schemas.ts'

nameSchemas(schemas)

const tag = 'webhooks'
const OneWebhook = z.object({ webhookId: WebhookId })

export const webhookRoutes = [
  route({
    id: 'createWebhook',
    method: 'post',
    path: '/v1/webhooks',
    summary: 'Have events posted to an address; the secret that signs them is shown once',
    tag,
    guard: 'admin',
    body: WebhookCreate,
    idempotent: true,
    answers: created(WebhookCreated, 'The webhook with its secret'),
    refuses: ['wrong_state', 'key_conflict', 'unprocessable'],
    answer: ({ deps, caller, body, idempotencyKey }) =>
      createWebhook(deps, caller, body, idempotencyKey),
  }),

  route({
    id: 'listWebhooks',
    method: 'get',
    path: '/v1/webhooks',
    summary: 'List the webhooks of the organisation, newest first',
    tag,
    guard: 'admin',
    query: PageQuery,
    answers: ok(listSchema(Webhook), 'One page'),
    refuses: ['invalid_request'],
    answer: ({ deps, caller, query }) =>
      datedPage(query, (before, limit) =>
        listWebhooks(deps.db(), caller.organisationId, { limit, before }),
      ),
  }),

  route({
    id: 'deleteWebhook',
    method: 'delete',
    path: '/v1/webhooks/{webhookId}',
    summary: 'Delete a webhook; what is still on its way to it is dropped',
    tag,
    guard: 'admin',
    params: OneWebhook,
    answers: gone('It is gone'),
    refuses: ['not_found'],
    answer: ({ deps, caller, params }) => deleteWebhook(deps.db(), { ...caller, ...params }),
  }),

  route({
    id: 'testWebhook',
    method: 'post',
    path: '/v1/webhooks/{webhookId}/test',
    summary: 'Post one signed test event now',
    tag,
    guard: 'admin',
    params: OneWebhook,
    answers: ok(WebhookTest, 'How it went'),
    refuses: ['not_found'],
    answer: ({ deps, caller, params }) => postWebhookTest(deps, { ...caller, ...params }),
  }),

  route({
    id: 'listDeliveries',
    method: 'get',
    path: '/v1/webhooks/{webhookId}/deliveries',
    summary: 'List what was sent to a webhook, newest first',
    tag,
    guard: 'admin',
    params: OneWebhook,
    query: PageQuery,
    answers: ok(listSchema(Delivery), 'One page'),
    refuses: ['invalid_request', 'not_found'],
    answer: ({ deps, caller, params, query }) =>
      datedPage(query, (before, limit) =>
        listWebhookDeliveries(deps.db(), { ...caller, ...params }, { limit, before }),
      ),
  }),
]
