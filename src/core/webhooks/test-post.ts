import type { WebhookBody, WebhookTest } from '../../contract/webhook.ts'
import type { Clock, Crypto, Db, WebhookSender } from '../ports.ts'
import { errorOf, isDelivered, signedPost } from './post.ts'
import { findTarget, noWebhook, type WebhookKey } from './webhook.ts'

export interface TestPorts {
  db(): Db
  crypto: Crypto
  webhooks: WebhookSender
  now: Clock
}

/** One signed post, now and never again. */
export async function postTest(ports: TestPorts, key: WebhookKey): Promise<WebhookTest> {
  const { crypto, webhooks, now } = ports
  const target = await findTarget(ports.db(), key)
  if (!target) throw noWebhook()
  const at = now()
  const deliveryId = `dlv_${crypto.random(38)}`
  const body = testBody(deliveryId, at, key)
  const secret = await crypto.unseal(target.sealedSecret)
  const answer = await webhooks.post(signedPost(at, { url: target.url, secret, deliveryId, body }))
  return {
    deliveryId,
    delivered: isDelivered(answer),
    status: answer.status,
    error: errorOf(answer),
    durationMs: now() - at,
  }
}

function testBody(id: string, at: number, { organisationId, webhookId }: WebhookKey): string {
  const body: Record<keyof WebhookBody, unknown> = {
    id,
    event: 'test',
    at,
    organisationId,
    sessionId: null,
    runId: null,
    data: { webhookId },
  }
  return JSON.stringify(body)
}
