import { AppError } from '../../contract/error.ts'
import {
  maxWebhooks,
  type Webhook,
  type WebhookCreate,
  type WebhookCreated,
  type WebhookEvent,
} from '../../contract/webhook.ts'
import type { Crypto, Db } from '../ports.ts'

export interface WebhookKey {
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
export async function createWebhook(
  db: Db,
  crypto: Crypto,
  now: number,
  organisationId: string,
  { url, events, project }: WebhookCreate,
): Promise<WebhookCreated> {
  const id = `whk_${crypto.random(20)}`
  const secret = `whsec_${crypto.random(32)}`
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
        await crypto.seal(secret),
        now,
        maxWebhooks,
      ],
    },
  ])
  const made = await findWebhook(db, { organisationId, webhookId: id })
  if (made) return { ...webhookOf(made), secret }
  throw new AppError(
    'wrong_state',
    `Cannot create a webhook: there may be ${maxWebhooks} in an organisation`,
  )
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
export async function findTarget(db: Db, key: WebhookKey): Promise<WebhookTarget | null> {
  const row = await findWebhook(db, key)
  return row && { id: row.id, url: row.url, sealedSecret: row.sealed_secret }
}

/** Which webhooks of the organisation want which events of this project. */
export async function listSubscriptions(
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

export const noWebhook = () => new AppError('not_found', 'There is no such webhook')

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
