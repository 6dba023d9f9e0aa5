import { AppError } from '../../../contract/error.ts'
import {
  type Delivery,
  maxWebhooks,
  type Webhook,
  type WebhookBody,
  type WebhookCreate,
  type WebhookCreated,
  type WebhookEvent,
  type WebhookTest,
} from '../../../contract/webhook.ts'
import { keyAlreadyMade } from '../keys.ts'
import type { Clock, Crypto, Db, WebhookSender } from '../../ports.ts'
import { postError, isDelivered, signedPost } from './post.ts'

/**
 * The webhooks of an organisation, as libSQL has them: made, listed and deleted by admins, and found by a session that
 * has something to tell. Their deliveries are listed from what sessions have reported to libSQL; a test post is sent from
 * here once and never again.
 */

interface WebhookKey {
  organisationId: string
  webhookId: string
}

interface Row {
  id: string
  organisation_id: string
  project: string
  url: string
  events: string
  created_at: number
}
const columns = 'id, organisation_id, project, url, events, created_at'

/** The answer is the only place where the secret is ever readable. */
export async function insertWebhook(
  db: Db,
  crypto: Crypto,
  now: number,
  organisationId: string,
  { url, events, project }: WebhookCreate,
  id = `whk_${crypto.random(20)}`,
): Promise<WebhookCreated> {
  const secret = `whsec_${crypto.random(32)}`
  const sealed = await crypto.seal(secret)
  // The limit is checked in the statement that writes. Sent again, it meets its own id.
  await db.batch([
    {
      sql: `insert into webhooks (id, organisation_id, project, url, events, sealed_secret, created_at)
            select ?1, ?2, ?3, ?4, ?5, ?6, ?7
            where (select count(*) from webhooks where organisation_id = ?2) < ?8
            on conflict (id) do nothing`,
      values: [
        id,
        organisationId,
        project ?? '',
        url,
        JSON.stringify([...new Set(events)]),
        sealed,
        now,
        maxWebhooks,
      ],
    },
  ])
  const made = await findWebhook(db, { organisationId, webhookId: id })
  if (made && !(await isSealedBy(db, id, sealed))) throw keyAlreadyMade('webhook', id)
  if (made) return { ...webhookOf(made), secret }
  throw new AppError(
    'wrong_state',
    `Cannot create a webhook: there may be ${maxWebhooks} in an organisation`,
  )
}

async function isSealedBy(db: Db, id: string, sealed: string): Promise<boolean> {
  const query = 'select 1 from webhooks where id = ? and sealed_secret = ?'
  return (await db.all(query, id, sealed)).length > 0
}

/** Newest first. */
export async function listWebhooks(
  db: Db,
  organisationId: string,
  page: { limit: number; before: { createdAt: number; id: string } | null },
): Promise<Webhook[]> {
  const rows = await db.all<Row>(
    `select ${columns} from webhooks
     where organisation_id = ? and (created_at, id) < (?, ?) order by created_at desc, id desc limit ?`,
    organisationId,
    page.before?.createdAt ?? Number.MAX_SAFE_INTEGER,
    page.before?.id ?? '',
    page.limit,
  )
  return rows.map(webhookOf)
}

/** Deliveries to it that are still under way are dropped at their next attempt. */
export async function deleteWebhook(db: Db, key: WebhookKey): Promise<void> {
  if (!(await findWebhook(db, key))) throw noWebhook()
  await db.batch([
    {
      sql: 'delete from webhooks where organisation_id = ? and id = ?',
      values: [key.organisationId, key.webhookId],
    },
  ])
}

/** Where to send, and with what to sign. */
export interface WebhookTarget {
  id: string
  url: string
  sealedSecret: string
}

/** null: there is none, or it is another organisation's. */
export async function findWebhookTarget(db: Db, key: WebhookKey): Promise<WebhookTarget | null> {
  const row = await findWebhook(db, key)
  return row && { id: row.id, url: row.url, sealedSecret: row.sealed_secret }
}

/** Which webhooks of the organisation want which events of this project. */
export async function listWebhookSubscriptions(
  db: Db,
  organisationId: string,
  project: string,
): Promise<{ id: string; events: WebhookEvent[] }[]> {
  const rows = await db.all<{ id: string; events: string }>(
    `select id, events from webhooks where organisation_id = ? and project in ('', ?) order by id`,
    organisationId,
    project,
  )
  return rows.map(({ id, events }) => ({ id, events: JSON.parse(events) as WebhookEvent[] }))
}

async function findWebhook(
  db: Db,
  { organisationId, webhookId }: WebhookKey,
): Promise<(Row & { sealed_secret: string }) | null> {
  const [row] = await db.all<Row & { sealed_secret: string }>(
    `select ${columns}, sealed_secret from webhooks where organisation_id = ? and id = ?`,
    organisationId,
    webhookId,
  )
  return row ?? null
}

const noWebhook = () => new AppError('not_found', 'There is no such webhook')

function webhookOf(row: Row): Webhook {
  return {
    id: row.id as Webhook['id'],
    organisationId: row.organisation_id as Webhook['organisationId'],
    project: row.project || null,
    url: row.url,
    events: JSON.parse(row.events) as WebhookEvent[],
    createdAt: row.created_at,
  }
}

/** What was sent or is on its way to one webhook, newest first. */
export async function listWebhookDeliveries(
  db: Db,
  key: WebhookKey,
  page: { limit: number; before: { createdAt: number; id: string } | null },
): Promise<Delivery[]> {
  if (!(await findWebhookTarget(db, key))) throw noWebhook()
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

interface TestPorts {
  db(): Db
  crypto: Crypto
  webhooks: WebhookSender
  now: Clock
}

/** One signed post, now and never again. */
export async function postWebhookTest(ports: TestPorts, key: WebhookKey): Promise<WebhookTest> {
  const { crypto, webhooks, now } = ports
  const target = await findWebhookTarget(ports.db(), key)
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
    error: postError(answer),
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
