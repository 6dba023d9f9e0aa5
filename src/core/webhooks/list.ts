import type { Delivery } from '../../contract/webhook.ts'
import type { Db } from '../ports.ts'
import { findTarget, noWebhook, type WebhookKey } from './webhook.ts'

/** Newest first. */
export async function listDeliveries(
  db: Db,
  key: WebhookKey,
  page: { limit: number; before: { createdAt: number; id: string } | null },
): Promise<Delivery[]> {
  if (!(await findTarget(db, key))) throw noWebhook()
  return db.all<Delivery>(
    `select id, session_id as sessionId, run_id as runId, event, state, attempts, last_status as lastStatus, error,
       created_at as createdAt, updated_at as updatedAt
     from webhook_deliveries
     where organisation_id = ? and webhook_id = ? and (created_at, id) < (?, ?)
     order by created_at desc, id desc limit ?`,
    key.organisationId,
    key.webhookId,
    page.before?.createdAt ?? Number.MAX_SAFE_INTEGER,
    page.before?.id ?? '',
    page.limit,
  )
}
