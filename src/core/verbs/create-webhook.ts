import { AppError } from '../../contract/error.ts'
import type { WebhookCreate, WebhookCreated } from '../../contract/webhook.ts'
import type { Clock, Crypto, Db, WebhookSender } from '../ports.ts'
import { insertWebhook as storeWebhook } from '../registry/webhooks/webhooks.ts'
import type { Caller } from '../session/record/caller.ts'
import { claimId, type ClaimIdPorts } from './claim-id.ts'

interface CreateWebhookPorts extends ClaimIdPorts {
  db(): Db
  crypto: Crypto
  now: Clock
  webhooks: Pick<WebhookSender, 'refusal'>
}

/** Once per Idempotency-Key: a repeat is refused and names the webhook. */
export async function createWebhook(
  ports: CreateWebhookPorts,
  { organisationId }: Pick<Caller, 'organisationId'>,
  input: WebhookCreate,
  key: string | null,
): Promise<WebhookCreated> {
  const message = ports.webhooks.refusal(input.url)
  if (message !== null)
    throw new AppError('unprocessable', `Cannot post to this address: ${message}`, [
      { path: 'url', message },
    ])
  const id = await claimId(ports, organisationId, { prefix: 'whk', key, body: input })
  return await storeWebhook(ports.db(), ports.crypto, ports.now(), organisationId, input, id)
}
