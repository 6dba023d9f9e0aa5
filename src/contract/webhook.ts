import { z } from 'zod'
import { DeliveryId, OrganisationId, RunId, SessionId, WebhookId } from './ids.ts'
import { SessionCreate } from './session.ts'

export const WebhookEvent = z.enum(['approval.requested', 'run.ended', 'sandbox.lost'])
export type WebhookEvent = z.infer<typeof WebhookEvent>

export const Webhook = z.object({
  id: WebhookId,
  organisationId: OrganisationId,
  project: z.string().nullable().describe('null: of every project'),
  url: z.string(),
  events: z.array(WebhookEvent),
  createdAt: z.number(),
})
export type Webhook = z.infer<typeof Webhook>

export const WebhookCreate = z.strictObject({
  url: z
    .url({ protocol: /^https?$/, error: 'Must be an https URL' })
    .max(2000)
    .describe('https; http only to this machine, where the deployment itself is on it'),
  events: z.array(WebhookEvent).min(1).max(WebhookEvent.options.length),
  project: SessionCreate.shape.project.unwrap().optional().describe('Absent: every project'),
})
export type WebhookCreate = z.infer<typeof WebhookCreate>

export const WebhookCreated = Webhook.extend({
  secret: z.string().describe('Signs every delivery. Shown once'),
})
export type WebhookCreated = z.infer<typeof WebhookCreated>

export const maxWebhooks = 20

/**
 * What a webhook receives, with `x-gantry-signature: t=<unix seconds>,v1=<hex>`: HMAC-SHA-256 with the secret over
 * `<t>.<body>`. The id is the same in every attempt, and also in `x-gantry-delivery`: what comes twice has it twice.
 */
export const WebhookBody = z.object({
  id: z.string(),
  event: z.enum([...WebhookEvent.options, 'test']),
  at: z.number(),
  organisationId: OrganisationId,
  sessionId: SessionId.nullable().describe('null: a test'),
  runId: RunId.nullable(),
  data: z.record(z.string(), z.unknown()),
})
export type WebhookBody = z.infer<typeof WebhookBody>

export const signatureHeader = 'x-gantry-signature'
export const deliveryHeader = 'x-gantry-delivery'

export const DeliveryState = z.enum(['pending', 'delivered', 'failed', 'dropped'])
export type DeliveryState = z.infer<typeof DeliveryState>

/** From libSQL, so it may be a moment older than the session that delivers. */
export const Delivery = z.object({
  id: DeliveryId,
  sessionId: SessionId,
  runId: RunId.nullable(),
  event: WebhookEvent,
  state: DeliveryState.describe('failed: given up after a day. dropped: the webhook was deleted'),
  attempts: z.number().int(),
  lastStatus: z.number().int().nullable(),
  error: z.string().nullable(),
  createdAt: z.number(),
  updatedAt: z.number(),
})
export type Delivery = z.infer<typeof Delivery>

export const WebhookTest = z.object({
  deliveryId: z.string(),
  delivered: z.boolean(),
  status: z.number().int().nullable(),
  error: z.string().nullable(),
  durationMs: z.number(),
})
export type WebhookTest = z.infer<typeof WebhookTest>
