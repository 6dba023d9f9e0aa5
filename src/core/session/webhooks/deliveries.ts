import { isByteLengthOver } from '../../../contract/byte-length.ts'
import { idAlphabet } from '../../../contract/ids.ts'
import type { WebhookBody, WebhookEvent } from '../../../contract/webhook.ts'
import { clearDeadline } from '../../actor/deadlines.ts'
import type { Sql } from '../../ports.ts'
import { loadSession } from '../record/record.ts'
import { addTarget, finishTargetDelivery, wakeTarget } from './targets.ts'

/** What is told; of more than that only that there was more. */
const maxBodyBytes = 64 * 1024

export interface NewDelivery {
  event: WebhookEvent
  runId?: string | null
  /** As it is stored elsewhere, so without secrets. */
  data: Record<string, unknown>
}

/** In the transaction that decides what is told: from then on it cannot be lost. Returns the delivery's id. */
export function addDelivery(
  sql: Sql,
  now: number,
  { event, runId = null, data }: NewDelivery,
): string {
  const { id: sessionId, organisationId } = loadSession(sql)
  const n = 1 + (sql.all<{ n: number | null }>('select max(n) as n from deliveries')[0]?.n ?? 0)
  const id = `dlv_${sessionId.slice(4)}${letters(n)}`
  const body = bodyText({ id, event, at: now, organisationId, sessionId, runId, data })
  sql.run(
    `insert into deliveries (n, id, event, run_id, body, state, created_at)
     values (?, ?, ?, ?, ?, 'new', ?)`,
    n,
    id,
    event,
    runId,
    body,
    now,
  )
  wakeTarget(sql, 'webhook', now)
  return id
}

function bodyText(body: Record<keyof WebhookBody, unknown>): string {
  const text = JSON.stringify(body)
  return isByteLengthOver(text, maxBodyBytes)
    ? JSON.stringify({ ...body, data: { truncated: true } })
    : text
}

/** Eight characters that keep the order of the numbers. */
function letters(n: number): string {
  let text = ''
  for (let left = n; text.length < 8; left = Math.floor(left / 32))
    text = idAlphabet.charAt(left % 32) + text
  return text
}

export function hasNewDeliveries(sql: Sql): boolean {
  return sql.all(`select 1 from deliveries where state = 'new' limit 1`).length > 0
}

export function fanOutDeliveries(
  sql: Sql,
  now: number,
  subscriptions: readonly { id: string; events: readonly WebhookEvent[] }[],
): void {
  const fresh = sql.all<{ id: string; event: WebhookEvent }>(
    `select id, event from deliveries where state = 'new' order by n`,
  )
  for (const { id, event } of fresh) {
    sql.run(`update deliveries set state = 'open' where id = ?`, id)
    for (const { id: webhookId, events } of subscriptions)
      if (events.includes(event)) addTarget(sql, now, id, webhookId)
    finishTargetDelivery(sql, id)
  }
  clearDeadline(sql, 'webhook')
}
